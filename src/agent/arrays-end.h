
/* ==== [arrays-end] the names of stb_ds are the program's again ==================== */

#undef stbds_array_header
#undef stbds_string_block
#undef stbds_string_arena
#undef STBDS_SH_NONE
#undef STBDS_SH_DEFAULT
#undef STBDS_SH_STRDUP
#undef STBDS_SH_ARENA
#undef stbds_stralloc
#undef stbds_strreset
#undef stbds_arrgrowf
#ifdef __cplusplus
#undef stbds_arrgrowf_wrapper
#undef stbds_hmget_key_wrapper
#undef stbds_hmget_key_ts_wrapper
#undef stbds_hmput_default_wrapper
#undef stbds_hmput_key_wrapper
#undef stbds_hmdel_key_wrapper
#undef stbds_shmode_func_wrapper
#endif
#pragma pop_macro("INCLUDE_STB_DS_H")
#pragma pop_macro("STB_DS_IMPLEMENTATION")
#pragma pop_macro("STBDS_NO_SHORT_NAMES")
#pragma pop_macro("STBDS_REALLOC")
#pragma pop_macro("STBDS_FREE")
