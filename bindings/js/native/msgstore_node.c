/* msgstore for Node, as a native module over Node-API 8: msgstore_ffi.h with JavaScript's
 * values in the place of C's. native.js is the interface for programs.
 *
 *     open(args)                      -> a handle, or a failure
 *     union(handles)                  -> a handle, or a failure; handles is an array
 *     call(handle, name, args, body)  -> a text, or a failure
 *     start(handle, name, args, body) -> a promise of what call returns
 *     close(handle)                   -> nothing; a handle that is closed stays as it is
 *     opened()                        -> the number of stores that are open
 *
 * args is a text, body a text or a Uint8Array, handle null for a function without a store.
 * A failure is the object { code, reply }: code is an ms_result, reply the text that
 * msgstore_ffi.h returns, "" if memory is exhausted. An argument of another kind throws a
 * TypeError. A result that is too long for a string throws a RangeError.
 *
 * ---- THREADS ---------------------------------------------------------------------------
 *
 * call runs on the thread that makes it, start on a thread of Node's pool; no JavaScript
 * runs inside. Each environment (the main thread, a worker) has an instance of the module.
 * It has no state but the count of its open stores. A handle belongs to its environment: a
 * message to another worker leaves it empty, and it is refused there.
 *
 * A store has users: its handle until that is closed or collected, each call that runs in
 * the pool, each union of it. The last one closes it. Users are counted on the thread of
 * the environment alone; a thread of the pool sees a job and its store.
 *
 * (NA1) A store is closed once, by its last user, at the latest when its environment
 *       ends.
 * (NA2) The library reads copies: a program cannot change bytes during a call, not even
 *       those that it shares with another worker.
 * (NA3) No store is closed while a call runs in it, or before a union of it. */

#define NAPI_VERSION 8
#include <node_api.h>

#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "msgstore_ffi.h"

#include <stdlib.h>
#include <string.h>

/* native.js and this file change together where their calls change. */
#define NODE_INTERFACE 2

/* The state of one environment, freed with the last handle or job that is in it. */
typedef struct instance {
    size_t refs;
    size_t opened;
} instance;

/* An open store. */
typedef struct shared {
    ms_store *store;
    size_t users;
    instance *of;             /* counts it in `opened`; lives at least as long */
    size_t n_members;
    struct shared *members[]; /* of a union, which uses them */
} shared;

typedef struct handle {
    shared *is;               /* NULL: closed */
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

static void store_close(shared *s)
{
    instance *of = s->of;
    ms_close(s->store);       /* NULL is allowed */
    of->opened--;
    free(s);
    instance_drop(of);
}

/* Takes a user from the members of a union that is not there (any more): they are no
 * unions. */
static void members_drop(shared **members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (--members[i]->users == 0) store_close(members[i]);
}

/* Takes a user from a store; NULL is allowed. */
static void shared_drop(shared *s)
{
    if (!s || --s->users > 0) return;
    ms_close(s->store);
    s->store = NULL;          /* a union first, its members after it */
    members_drop(s->members, s->n_members);
    store_close(s);
}

/* Returns a store without a user; NULL: no memory. */
static shared *shared_new(instance *of, size_t n_members)
{
    shared *s = (shared *)calloc(1, sizeof *s + n_members * sizeof *s->members);
    if (!s) return NULL;
    s->of = of;
    s->n_members = n_members;
    return s;
}

/* Gives an opened store to a handle. */
static void shared_begin(shared *s, handle *h)
{
    s->users = 1;
    s->of->refs++;
    s->of->opened++;
    h->is = s;
}

/* Closes a handle. A store that goes on for other users is synced, as closing would. */
static void handle_close(handle *h)
{
    shared *s = h->is;
    h->is = NULL;
    if (s && s->users > 1) (void)ms_sync(s->store, NULL, NULL);
    shared_drop(s);
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
    shared *s;
    if (!arguments(env, info, args)) return NULL;
    h = handle_new(env, &object); /* before the store, which would be lost otherwise */
    if (!h) return NULL;
    if (!text_of(env, args[0], false, false, &given)) {
        texts_free(&given, 1);
        return NULL;
    }
    s = shared_new(h->of, 0);
    if (!s) {
        texts_free(&given, 1);
        return no_memory(env);
    }
    code = ms_ffi_open(&s->store, given.bytes, given.len, &out, &len);
    texts_free(&given, 1);
    if (code != MS_OK) {
        free(s);
        return reply(env, code, out, len);
    }
    ms_ffi_free(out);
    shared_begin(s, h);
    return object;
}

/* Takes the handles of an array as members of a union, whose users they get. Returns how
 * many it took; fewer than s->n_members: an exception is pending. */
static size_t members_of(napi_env env, napi_value array, shared *s, ms_store **stores)
{
    size_t n = 0;
    for (; n < s->n_members; n++) {
        napi_value item;
        handle *h = napi_get_element(env, array, (uint32_t)n, &item) == napi_ok
                        ? handle_of(env, item)
                        : NULL;
        if (!h) break;
        if (!h->is) {
            (void)refuse(env, "a handle is closed");
            break;
        }
        s->members[n] = h->is;
        h->is->users++;
        stores[n] = h->is->store;
    }
    return n;
}

static napi_value node_union(napi_env env, napi_callback_info info)
{
    napi_value args[ARGS_MAX], object;
    bool array = false;
    uint32_t n = 0;
    char *out = NULL;
    size_t len = 0, taken;
    int code = MS_OK;
    handle *h;
    if (!arguments(env, info, args)) return NULL;
    if (napi_is_array(env, args[0], &array) != napi_ok || !array ||
        napi_get_array_length(env, args[0], &n) != napi_ok)
        return refuse(env, "an array of handles was expected");
    h = handle_new(env, &object);
    if (!h) return NULL;
    shared *s = shared_new(h->of, n);
    ms_store **stores = (ms_store **)malloc(n * sizeof *stores + 1);
    if (!s || !stores) {
        free(s);
        free(stores);
        return no_memory(env);
    }
    taken = members_of(env, args[0], s, stores);
    bool whole = taken == n;
    if (whole) code = ms_ffi_union(&s->store, stores, n, &out, &len);
    free(stores);
    if (!whole || code != MS_OK) {
        members_drop(s->members, taken);
        free(s);
        return whole ? reply(env, code, out, len) : NULL;
    }
    ms_ffi_free(out);
    shared_begin(s, h);
    return object;
}

/* ---- Calls. */

/* A call, with copies of its arguments: name, args, body. */
typedef struct job {
    shared *is;               /* NULL: a function without a store, or a closed handle */
    text given[3];
    int code;
    char *out;                /* the result; NULL before the call */
    size_t len;
    /* Of a call in the pool. */
    instance *of;
    napi_async_work work;
    napi_deferred promise;
} job;

/* Reads the arguments of a call. Returns false with an exception pending. The caller frees
 * the texts in each case. */
static bool job_read(napi_env env, napi_callback_info info, job *j)
{
    napi_value args[ARGS_MAX];
    napi_valuetype type;
    if (!arguments(env, info, args)) return false;
    if (napi_typeof(env, args[0], &type) != napi_ok) return refuse(env, "no handle"), false;
    if (type != napi_null) {
        handle *h = handle_of(env, args[0]);
        if (!h) return false;
        j->is = h->is;
    }
    if (!text_of(env, args[1], false, false, &j->given[0]) ||
        !text_of(env, args[2], true, false, &j->given[1]) ||
        !text_of(env, args[3], true, true, &j->given[2]))
        return false;
    if (strlen(j->given[0].bytes) == j->given[0].len) return true;
    return refuse(env, "the name has a NUL"), false;
}

static void job_run(job *j)
{
    j->code = ms_ffi_call(j->is ? j->is->store : NULL, j->given[0].bytes,
                          j->given[1].bytes, j->given[1].len, j->given[2].bytes,
                          j->given[2].len, &j->out, &j->len);
}

static napi_value node_call(napi_env env, napi_callback_info info)
{
    job j;
    memset(&j, 0, sizeof j);
    bool read = job_read(env, info, &j);
    if (read) job_run(&j);
    texts_free(j.given, 3);
    return read ? reply(env, j.code, j.out, j.len) : NULL;
}

/* On a thread of the pool. */
static void job_execute(napi_env env, void *data)
{
    (void)env;
    job_run((job *)data);
}

static void job_free(napi_env env, job *j)
{
    instance *of = j->of;
    if (j->work) (void)napi_delete_async_work(env, j->work);
    texts_free(j->given, 3);
    ms_ffi_free(j->out);
    shared_drop(j->is);
    free(j);
    instance_drop(of);
}

/* Settles the promise. In an environment that ends nothing can be settled. */
static void job_complete(napi_env env, napi_status status, void *data)
{
    job *j = (job *)data;
    napi_value value = NULL, error = NULL;
    if (status == napi_ok) {
        char *out = j->out;
        j->out = NULL;
        value = reply(env, j->code, out, j->len);
    }
    if (value)
        (void)napi_resolve_deferred(env, j->promise, value);
    else if (napi_get_and_clear_last_exception(env, &error) == napi_ok && error)
        (void)napi_reject_deferred(env, j->promise, error);
    job_free(env, j);
}

static napi_value node_start(napi_env env, napi_callback_info info)
{
    napi_value promise, name;
    void *of = NULL;
    job *j;
    if (napi_get_instance_data(env, &of) != napi_ok || !of)
        return refuse(env, "the environment has ended");
    j = (job *)calloc(1, sizeof *j);
    if (!j) return no_memory(env);
    j->of = (instance *)of;
    j->of->refs++;
    bool read = job_read(env, info, j);
    if (j->is) j->is->users++;
    if (!read) return job_free(env, j), NULL;
    if (napi_create_string_utf8(env, "msgstore", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_promise(env, &j->promise, &promise) != napi_ok ||
        napi_create_async_work(env, NULL, name, job_execute, job_complete, j, &j->work) !=
            napi_ok ||
        napi_queue_async_work(env, j->work) != napi_ok) {
        job_free(env, j);
        return no_memory(env);
    }
    return promise;
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
        {"union", node_union},
        {"call", node_call},
        {"start", node_start},
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
