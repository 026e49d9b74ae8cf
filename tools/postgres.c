/* See postgres.h. Only this file compiles the store over PostgreSQL, with the calls of
 * libpq made through pointers: the library is loaded for a URL, so that other starts of
 * the tool do not pay for it. */

#define _GNU_SOURCE
#if defined(WITH_POSTGRES) && !defined(_WIN32)
#include "../msgstore.h"

#include <dlfcn.h>
#include <libpq-fe.h>
#include <string.h>

#define FUNCTIONS(X)                                                                    \
    X(backendPID) X(clear) X(cmdTuples) X(connectPoll) X(connectStartParams)            \
    X(connectionNeedsPassword) X(conninfoFree) X(conninfoParse)                         \
    X(consumeInput) X(errorMessage) X(finish) X(flush) X(freemem) X(getResult)          \
    X(getisnull) X(getlength) X(getvalue) X(isBusy) X(libVersion) X(notifies)           \
    X(ntuples) X(parameterStatus) X(reset) X(resultErrorField) X(resultStatus)          \
    X(sendPrepare) X(sendQuery) X(sendQueryParams) X(sendQueryPrepared)                 \
    X(setErrorVerbosity)                                                                \
    X(setNoticeReceiver) X(setnonblocking) X(socket) X(status) X(transactionStatus)

static struct {
#define X(name) __typeof__(PQ##name) *name;
    FUNCTIONS(X)
#undef X
} pq;

/* Returns what is missing; NULL: the library is loaded. */
static const char *load_libpq(void)
{
#ifdef __APPLE__
    static const char *const names[] = {"libpq.5.dylib", LIBPQ_DIR "/libpq.5.dylib"};
#else
    static const char *const names[] = {"libpq.so.5", "libpq.so"};
#endif
    static void *library;
    for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) return "libpq";
#define X(name)                                                                         \
    {                                                                                   \
        void *found = dlsym(library, "PQ" #name);                                       \
        if (found == NULL) return "PQ" #name " in libpq";                               \
        memcpy(&pq.name, &found, sizeof found); /* no cast from an object exists */     \
    }
    FUNCTIONS(X)
#undef X
    return NULL;
}

#define PQbackendPID pq.backendPID
#define PQclear pq.clear
#define PQcmdTuples pq.cmdTuples
#define PQconnectPoll pq.connectPoll
#define PQconnectStartParams pq.connectStartParams
#define PQconnectionNeedsPassword pq.connectionNeedsPassword
#define PQconninfoFree pq.conninfoFree
#define PQconninfoParse pq.conninfoParse
#define PQconsumeInput pq.consumeInput
#define PQerrorMessage pq.errorMessage
#define PQfinish pq.finish
#define PQflush pq.flush
#define PQfreemem pq.freemem
#define PQgetResult pq.getResult
#define PQgetisnull pq.getisnull
#define PQgetlength pq.getlength
#define PQgetvalue pq.getvalue
#define PQisBusy pq.isBusy
#define PQlibVersion pq.libVersion
#define PQnotifies pq.notifies
#define PQntuples pq.ntuples
#define PQparameterStatus pq.parameterStatus
#define PQreset pq.reset
#define PQresultErrorField pq.resultErrorField
#define PQresultStatus pq.resultStatus
#define PQsendPrepare pq.sendPrepare
#define PQsendQuery pq.sendQuery
#define PQsendQueryParams pq.sendQueryParams
#define PQsendQueryPrepared pq.sendQueryPrepared
#define PQsetErrorVerbosity pq.setErrorVerbosity
#define PQsetNoticeReceiver pq.setNoticeReceiver
#define PQsetnonblocking pq.setnonblocking
#define PQsocket pq.socket
#define PQstatus pq.status
#define PQtransactionStatus pq.transactionStatus

#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "../backends/msgstore_postgres.h"
#define BY_POINTERS
#endif

#include "postgres.h"

bool is_postgres(const char *path)
{
    return strncmp(path, "postgresql://", 13) == 0 ||
           strncmp(path, "postgres://", 11) == 0;
}

int open_postgres(job *j, const char *url, bool write)
{
#ifdef BY_POINTERS
    ms_error err;
    ms_pg_desc desc;
    const char *missing = load_libpq();
    if (missing != NULL) {
        complain("%.20s: there is no %s on this machine, which the connection needs "
                 "(Debian: libpq5)", url, missing);
        return FAILED;
    }
    memset(&desc, 0, sizeof desc);
    desc.url = url;
    desc.read_only = !write;
    desc.connections = 2;
    desc.keep_unset_times = true;
    j->appends = write;
    ms_result result = ms_pg_open(&j->store, &desc, &err);
    return result == MS_OK ? FINE : complain_of(NULL, result, &err);
#else
    (void)j;
    (void)write;
    complain("%.20s: this program was built without libpq (Debian: libpq-dev)", url);
    return FAILED;
#endif
}

ms_result wait_postgres(job *j, ms_str location, uint64_t *place, uint32_t ms,
                        bool *moved, ms_error *err)
{
#ifdef BY_POINTERS
    uint64_t before = *place;
    ms_result result = ms_pg_wait(j->store, location, place, ms, err);
    *moved = *place != before || result != MS_OK;
    return result;
#else
    (void)j, (void)location, (void)place, (void)ms;
    *moved = false;
    return ms_error_set(err, MS_E_UNSUPPORTED, "this program was built without libpq");
#endif
}
