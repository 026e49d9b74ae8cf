/* msgstore for Node, as a native module over Node-API 8: msgstore_ffi.h with JavaScript's
 * values in the place of C's. native.js is the interface for programs.
 *
 *     open(args)                      -> a handle, or a failure
 *     call(handle, name, args, body)  -> a text, or a failure
 *     close(handle)                   -> nothing; a handle that is closed stays as it is
 *     opened()                        -> the number of handles that are open
 *
 * args is a text, body a text or a Uint8Array, handle null for a function without a store.
 * A failure is the object { code, reply }: code is an ms_result, reply the text that
 * msgstore_ffi.h returns, "" if memory is exhausted. An argument of another kind throws a
 * TypeError. A result that is too long for a string throws a RangeError.
 *
 * ---- THREADS ---------------------------------------------------------------------------
 *
 * A call runs on the thread that makes it, and no JavaScript runs inside. Each environment
 * (the main thread, a worker) has an instance of the module. It has no state but the count
 * of its open handles. A handle belongs to its environment: a message to another worker
 * leaves it empty, and it is refused there.
 *
 * (NA1) A store is closed once: by close, else when its handle is collected, at the latest
 *       when the environment ends.
 * (NA2) The library reads copies: a program cannot change bytes during a call, not even
 *       those that it shares with another worker. */

#define NAPI_VERSION 8
#include <node_api.h>

#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "msgstore_ffi.h"

#include <stdlib.h>
#include <string.h>

/* native.js and this file change together where their calls change. */
#define NODE_INTERFACE 1

/* The state of one environment, freed with the last handle that counts in it. */
typedef struct instance {
    size_t refs;
    size_t opened;
} instance;

typedef struct handle {
    ms_store *store;          /* NULL: closed */
    instance *of;
} handle;

static const napi_type_tag handle_tag = {0x6d736773746f7265u, 0x8f1d53a2c04be976u};

static void instance_drop(instance *of)
{
    if (--of->refs == 0) free(of);
}

static void instance_end(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    instance_drop((instance *)data);
}

static void handle_close(handle *h)
{
    if (!h->store) return;
    ms_close(h->store);
    h->store = NULL;
    h->of->opened--;
}

static void handle_end(napi_env env, void *data, void *hint)
{
    handle *h = (handle *)data;
    (void)env;
    (void)hint;
    handle_close(h);
    instance_drop(h->of);
    free(h);
}

/* Returns NULL, with an exception pending. */
static napi_value refuse(napi_env env, const char *message)
{
    bool pending = false;
    if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
        napi_throw_type_error(env, "E_ARGUMENT", message);
    return NULL;
}

static napi_value no_memory(napi_env env)
{
    napi_throw_range_error(env, "E_NO_MEMORY", "no memory");
    return NULL;
}

/* ---- Arguments. */

/* A copy of what an argument has, and a NUL; bytes is freed by the caller. */
typedef struct text {
    char *bytes;              /* NULL: the argument is absent */
    size_t len;
} text;

static void texts_free(text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) free(texts[i].bytes);
}

/* Copies a string. Returns false with an exception pending. */
static bool text_of_string(napi_env env, napi_value value, text *t)
{
    size_t len;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &len) != napi_ok)
        return refuse(env, "a string was expected"), false;
    t->bytes = len < SIZE_MAX ? (char *)malloc(len + 1) : NULL;
    if (!t->bytes) return no_memory(env), false;
    if (napi_get_value_string_utf8(env, value, t->bytes, len + 1, &t->len) != napi_ok)
        return refuse(env, "the string cannot be read"), false;
    return true;
}

/* Copies the bytes of a Uint8Array. Returns false with an exception pending. */
static bool text_of_bytes(napi_env env, napi_value value, text *t)
{
    napi_typedarray_type type;
    size_t len;
    void *data;
    if (napi_get_typedarray_info(env, value, &type, &len, &data, NULL, NULL) != napi_ok ||
        type != napi_uint8_array)
        return refuse(env, "a string or a Uint8Array was expected"), false;
    t->bytes = len < SIZE_MAX ? (char *)malloc(len + 1) : NULL;
    if (!t->bytes) return no_memory(env), false;
    if (len > 0) memcpy(t->bytes, data, len);
    t->bytes[len] = 0;
    t->len = len;
    return true;
}

/* Copies an argument. optional: undefined and null are absent; bytes: a Uint8Array is
 * allowed. Returns false with an exception pending. */
static bool text_of(napi_env env, napi_value value, bool optional, bool bytes, text *t)
{
    napi_valuetype type;
    bool typed = false;
    if (napi_typeof(env, value, &type) != napi_ok)
        return refuse(env, "the argument cannot be read"), false;
    if (type == napi_string) return text_of_string(env, value, t);
    if (optional && (type == napi_undefined || type == napi_null)) return true;
    if (bytes && napi_is_typedarray(env, value, &typed) == napi_ok && typed)
        return text_of_bytes(env, value, t);
    return refuse(env, bytes ? "a string or a Uint8Array was expected"
                             : "a string was expected"), false;
}

/* Returns the handle of an argument, or NULL with an exception pending. */
static handle *handle_of(napi_env env, napi_value value)
{
    napi_valuetype type;
    bool own = false;
    void *data = NULL;
    if (napi_typeof(env, value, &type) != napi_ok || type != napi_object ||
        napi_check_object_type_tag(env, value, &handle_tag, &own) != napi_ok || !own ||
        napi_unwrap(env, value, &data) != napi_ok)
        return (void)refuse(env, "a handle of this module was expected"), NULL;
    return (handle *)data;
}

/* ---- Results. */

/* Returns what a call returns, and frees `out`. */
static napi_value reply(napi_env env, int code, char *out, size_t len)
{
    napi_value string, failure, number;
    napi_status status = napi_create_string_utf8(env, out ? out : "", len, &string);
    ms_ffi_free(out);
    if (status != napi_ok) {
        bool pending = false;
        if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
            napi_throw_range_error(env, "E_TOO_LARGE",
                                   "the result is too long for a string: set a limit");
        return NULL;
    }
    if (code == MS_OK && len > 0) return string;
    if (napi_create_object(env, &failure) != napi_ok ||
        napi_create_int32(env, code, &number) != napi_ok ||
        napi_set_named_property(env, failure, "code", number) != napi_ok ||
        napi_set_named_property(env, failure, "reply", string) != napi_ok)
        return no_memory(env);
    return failure;
}

/* ---- The functions. */

#define ARGS_MAX 4

/* Reads the arguments of a call; those that are missing are undefined. */
static bool arguments(napi_env env, napi_callback_info info, napi_value *args)
{
    size_t n = ARGS_MAX;
    if (napi_get_cb_info(env, info, &n, args, NULL, NULL) == napi_ok) return true;
    return refuse(env, "the arguments cannot be read"), false;
}

/* Returns a handle without a store, which counts in the instance; NULL with an exception
 * pending. */
static handle *handle_new(napi_env env, napi_value *object)
{
    void *of = NULL;
    handle *h;
    if (napi_get_instance_data(env, &of) != napi_ok || !of)
        return (void)refuse(env, "the environment has ended"), NULL;
    h = (handle *)calloc(1, sizeof *h);
    if (!h) return (void)no_memory(env), NULL;
    h->of = (instance *)of;
    h->of->refs++;
    if (napi_create_object(env, object) != napi_ok ||
        napi_wrap(env, *object, h, handle_end, NULL, NULL) != napi_ok) {
        instance_drop(h->of);
        free(h);
        return (void)no_memory(env), NULL;
    }
    if (napi_type_tag_object(env, *object, &handle_tag) != napi_ok)
        return (void)no_memory(env), NULL; /* its finaliser frees it */
    return h;
}

static napi_value node_open(napi_env env, napi_callback_info info)
{
    napi_value args[ARGS_MAX], object;
    text given = {NULL, 0};
    char *out;
    size_t len;
    int code;
    handle *h;
    if (!arguments(env, info, args)) return NULL;
    h = handle_new(env, &object); /* before the store, which would be lost otherwise */
    if (!h) return NULL;
    if (!text_of(env, args[0], false, false, &given)) {
        texts_free(&given, 1);
        return NULL;
    }
    code = ms_ffi_open(&h->store, given.bytes, given.len, &out, &len);
    texts_free(&given, 1);
    if (code != MS_OK) return reply(env, code, out, len);
    ms_ffi_free(out);
    h->of->opened++;
    return object;
}

static napi_value node_call(napi_env env, napi_callback_info info)
{
    napi_value args[ARGS_MAX];
    napi_valuetype type;
    text given[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    char *out;
    size_t len;
    int code;
    ms_store *store = NULL;
    if (!arguments(env, info, args)) return NULL;
    if (napi_typeof(env, args[0], &type) != napi_ok) return refuse(env, "no handle");
    if (type != napi_null) {
        handle *h = handle_of(env, args[0]);
        if (!h) return NULL;
        store = h->store;
    }
    if (!text_of(env, args[1], false, false, &given[0]) ||
        !text_of(env, args[2], true, false, &given[1]) ||
        !text_of(env, args[3], true, true, &given[2])) {
        texts_free(given, 3);
        return NULL;
    }
    if (strlen(given[0].bytes) != given[0].len) {
        texts_free(given, 3);
        return refuse(env, "the name has a NUL");
    }
    code = ms_ffi_call(store, given[0].bytes, given[1].bytes, given[1].len,
                       given[2].bytes, given[2].len, &out, &len);
    texts_free(given, 3);
    return reply(env, code, out, len);
}

static napi_value node_close(napi_env env, napi_callback_info info)
{
    napi_value args[ARGS_MAX];
    handle *h;
    if (!arguments(env, info, args)) return NULL;
    h = handle_of(env, args[0]);
    if (h) handle_close(h);
    return NULL;
}

static napi_value node_opened(napi_env env, napi_callback_info info)
{
    void *of = NULL;
    napi_value count;
    (void)info;
    if (napi_get_instance_data(env, &of) != napi_ok || !of ||
        napi_create_double(env, (double)((instance *)of)->opened, &count) != napi_ok)
        return refuse(env, "the environment has ended");
    return count;
}

NAPI_MODULE_INIT(/* napi_env env, napi_value exports */)
{
    static const struct {
        const char *name;
        napi_callback run;
    } functions[] = {
        {"open", node_open},
        {"call", node_call},
        {"close", node_close},
        {"opened", node_opened},
    };
    napi_value value;
    instance *of = (instance *)calloc(1, sizeof *of);
    if (!of) return no_memory(env);
    of->refs = 1;
    if (napi_set_instance_data(env, of, instance_end, NULL) != napi_ok) {
        free(of);
        return refuse(env, "the module cannot be initialised");
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH,
                                 functions[i].run, NULL, &value) != napi_ok ||
            napi_set_named_property(env, exports, functions[i].name, value) != napi_ok)
            return refuse(env, "the module cannot be initialised");
    if (napi_create_int32(env, NODE_INTERFACE, &value) != napi_ok ||
        napi_set_named_property(env, exports, "version", value) != napi_ok)
        return refuse(env, "the module cannot be initialised");
    return exports;
}
