/* The C functions of the flat interface again, for a compiler to compare with the headers.
 * Written by tools/flat.sh from bindings/flat.table. */
MS_API int ms_ffi_open(ms_store **store, const char *args, size_t args_len, char **out,
                       size_t *len);
MS_API int ms_ffi_union(ms_store **store, ms_store *const *stores, size_t n_stores,
                        char **out, size_t *len);
MS_API int ms_ffi_call(ms_store *store, const char *name, const char *args,
                       size_t args_len, const char *body, size_t body_len, char **out,
                       size_t *len);
MS_API void ms_ffi_free(char *out);
MS_API void ms_close(ms_store *store);
