/* See web.h. One thread: a request is answered before the next one is read, so that the
 * log has one reader. */

#define _GNU_SOURCE
#include "web.h"

#if defined(WITH_MICROHTTPD) && !defined(_WIN32)
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <strings.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>


/* ---- The library, loaded at first use ---------------------------------------------- */

#define FUNCTIONS(X)                                                                    \
    X(add_response_header) X(create_response_from_callback) X(destroy_response)         \
    X(get_connection_info) X(get_connection_values) X(get_fdset2) X(get_timeout)        \
    X(lookup_connection_value) X(queue_response) X(run_from_select) X(start_daemon)     \
    X(stop_daemon)

static struct {
#define X(name) __typeof__(MHD_##name) *name;
    FUNCTIONS(X)
#undef X
} mhd;

/* Returns what is missing; NULL: the library is loaded. */
static const char *load_microhttpd(void)
{
#ifdef __APPLE__
    static const char *const names[] = {"libmicrohttpd.12.dylib",
                                        MICROHTTPD_DIR "/libmicrohttpd.12.dylib",
                                        MICROHTTPD_DIR "/libmicrohttpd.dylib"};
#else
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so"};
#endif
    static void *library;
    for (size_t i = 0; i < COUNT_OF(names) && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) return "libmicrohttpd";
#define X(name)                                                                         \
    {                                                                                   \
        void *found = dlsym(library, "MHD_" #name);                                     \
        if (found == NULL) return "MHD_" #name " in libmicrohttpd";                     \
        memcpy(&mhd.name, &found, sizeof found); /* no cast from an object exists */    \
    }
    FUNCTIONS(X)
#undef X
    return NULL;
}


/* ---- The server -------------------------------------------------------------------- */

enum { TOKEN_BYTES = 16, TOKEN_CHARS = 2 * TOKEN_BYTES };

typedef struct client {
    int fd;                   /* -1: the place is free */
    double since;             /* when its request could begin */
} client;

typedef struct server {
    const web_server *desc;
    int listening;            /* socket */
    char token[TOKEN_CHARS + 1];
    char hosts[2][32];        /* "127.0.0.1:8080", "localhost:8080" */
    client clients[WEB_CONNECTIONS + 1];
    size_t held;              /* bytes of answers that are not sent yet */
} server;

struct web_request {
    struct MHD_Connection *connection;
};

const char *web_argument(const web_request *r, const char *name)
{
    return mhd.lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Makes the token. False: the system has no entropy to give. */
static bool make_token(char *out)
{
    unsigned char bytes[TOKEN_BYTES];
    FILE *file = fopen("/dev/urandom", "rb");
    bool good = file != NULL && fread(bytes, 1, sizeof bytes, file) == sizeof bytes;
    if (file != NULL) fclose(file);
    for (size_t i = 0; i < TOKEN_BYTES && good; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
    if (!good) complain("/dev/urandom: %s", strerror(errno));
    return good;
}

/* Returns whether a path begins with "/TOKEN/". The time does not depend on how much of
 * the token is right. */
static bool has_token(const server *s, const char *path)
{
    unsigned differ = 0;
    size_t len = strlen(path);
    if (len < TOKEN_CHARS + 2 || path[0] != '/' || path[TOKEN_CHARS + 1] != '/') {
        return false;
    }
    for (size_t i = 0; i < TOKEN_CHARS; i++) {
        differ |= (unsigned char)path[i + 1] ^ (unsigned char)s->token[i];
    }
    return differ == 0;
}


/* ---- The origin of a request ------------------------------------------------------- */

/* The origin of a request, by its headers. */
typedef struct origin {
    const server *server;
    unsigned hosts;           /* headers that name the host */
    bool other;               /* another host, or another origin */
} origin;

static bool is_own_host(const server *s, const char *text)
{
    return strcasecmp(text, s->hosts[0]) == 0 || strcasecmp(text, s->hosts[1]) == 0;
}

static enum MHD_Result look_at_header(void *ctx, enum MHD_ValueKind kind,
                                      const char *name, const char *value)
{
    origin *o = ctx;
    const char *text = value != NULL ? value : "";
    (void)kind;
    if (strcasecmp(name, "Host") == 0) {
        o->hosts++;
        if (!is_own_host(o->server, text)) o->other = true;
    } else if (strcasecmp(name, "Origin") == 0) {
        bool own = strncmp(text, "http://", 7) == 0 && is_own_host(o->server, text + 7);
        if (!own) o->other = true;
    } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
        bool own = strcmp(text, "same-origin") == 0 || strcmp(text, "none") == 0;
        if (!own) o->other = true;
    }
    return MHD_YES;
}

static bool is_own_origin(const server *s, struct MHD_Connection *connection)
{
    origin o = {s, 0, false};
    mhd.get_connection_values(connection, MHD_HEADER_KIND, look_at_header, &o);
    return o.hosts == 1 && !o.other;
}


/* ---- Answers ----------------------------------------------------------------------- */

typedef struct body {
    server *server;
    char *bytes;
    size_t size;
} body;

static ssize_t body_read(void *ctx, uint64_t at, char *out, size_t most)
{
    const body *b = ctx;
    size_t rest = at < b->size ? b->size - (size_t)at : 0;
    size_t n = rest < most ? rest : most;
    if (n == 0) return MHD_CONTENT_READER_END_OF_STREAM;
    memcpy(out, b->bytes + at, n);
    return (ssize_t)n;
}

static void body_free(void *ctx)
{
    body *b = ctx;
    b->server->held -= b->size;
    free(b->bytes);
    free(b);
}

/* Queues an answer, and takes its body. */
static enum MHD_Result reply(server *s, struct MHD_Connection *connection,
                             const web_answer *a)
{
    static const char nothing[] = "default-src 'none'; frame-ancestors 'none'";
    static const struct {
        const char *name, *value;
    } headers[] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Frame-Options", "DENY"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    body *b = malloc(sizeof *b);
    if (b == NULL) {
        free(a->body);
        return MHD_NO;
    }
    b->server = s;
    b->bytes = a->body;
    b->size = a->body != NULL ? a->size : 0;
    s->held += b->size;
    struct MHD_Response *r = mhd.create_response_from_callback(b->size, 65536, body_read,
                                                               b, body_free);
    if (r == NULL) {
        body_free(b);
        return MHD_NO;
    }
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        mhd.add_response_header(r, headers[i].name, headers[i].value);
    }
    mhd.add_response_header(r, "Content-Security-Policy",
                            a->policy != NULL ? a->policy : nothing);
    if (a->type != NULL) mhd.add_response_header(r, "Content-Type", a->type);
    if (a->status == 405) mhd.add_response_header(r, "Allow", "GET, HEAD");
    if (a->status == 503) mhd.add_response_header(r, "Retry-After", "1");
    enum MHD_Result queued = mhd.queue_response(connection, a->status, r);
    mhd.destroy_response(r);
    return queued;
}

static enum MHD_Result refuse(server *s, struct MHD_Connection *connection,
                              unsigned status)
{
    web_answer a = {status, NULL, NULL, NULL, 0};
    return reply(s, connection, &a);
}

/* Called twice for a request: when its headers are there, and when it is whole. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    server *s = ctx;
    web_request r = {connection};
    web_answer a = {404, NULL, NULL, NULL, 0};
    (void)version, (void)upload;
    if (!is_own_origin(s, connection)) return refuse(s, connection, 403);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return refuse(s, connection, 405);
    }
    if (!has_token(s, path)) return refuse(s, connection, 403);
    if (*state == NULL) {
        *state = s; /* the headers are there */
        return MHD_YES;
    }
    if (*upload_size > 0) return MHD_NO; /* no request has a body: the connection ends */
    if (s->held > WEB_HELD / 2) return refuse(s, connection, 503);
    double began = clock_seconds();
    s->desc->answer(s->desc->ctx, &r, path + TOKEN_CHARS + 2, &a);
    double took = clock_seconds() - began;
    /* What the server takes is not the time of those that wait for it. */
    for (size_t i = 0; i < COUNT_OF(s->clients); i++) s->clients[i].since += took;
    if (a.body != NULL && a.size > WEB_HELD - s->held) {
        free(a.body);
        return refuse(s, connection, 503);
    }
    return reply(s, connection, &a);
}


/* ---- Connections ------------------------------------------------------------------- */

static void on_connection(void *ctx, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode what)
{
    server *s = ctx;
    client *c = *place;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (c != NULL) c->fd = -1;
        *place = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (size_t i = 0; i < COUNT_OF(s->clients) && info != NULL; i++) {
        if (s->clients[i].fd >= 0) continue;
        s->clients[i].fd = info->connect_fd;
        s->clients[i].since = clock_seconds();
        *place = &s->clients[i];
        return;
    }
}

/* After an answer the next request of the connection may begin. */
static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)ctx, (void)state, (void)why;
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    client *c = info != NULL ? info->socket_context : NULL;
    if (c != NULL) c->since = clock_seconds();
}

/* Ends connections that take too long, however little they send now and then. Returns
 * the number of connections. */
static size_t end_slow(server *s)
{
    size_t n = 0;
    double now = clock_seconds();
    for (size_t i = 0; i < COUNT_OF(s->clients); i++) {
        client *c = &s->clients[i];
        if (c->fd < 0) continue;
        n++;
        if (now - c->since > WEB_SECONDS) shutdown(c->fd, SHUT_RDWR);
    }
    return n;
}

/* Listens on the port of 127.0.0.1. Returns the socket, or -1; *port: the one it has. */
static int listen_on(unsigned *port)
{
    int on = 1;
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)*port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool good = fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                listen(fd, 128) == 0 &&
                getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    if (good) {
        *port = ntohs(at.sin_port);
        return fd;
    }
    complain("port %u of 127.0.0.1: %s", *port, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number)
{
    (void)number;
    asked_to_end = 1;
}

/* Blocks the signals that end the server, except where it waits. */
static void take_signals(sigset_t *outside)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t all;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigemptyset(&all);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&all, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &all, outside);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) sigdelset(outside, numbers[i]);
}

/* Waits for what happens next, and handles it. */
static int wait_and_run(server *s, struct MHD_Daemon *daemon, const sigset_t *outside)
{
    int most = -1;
    fd_set to_read, to_write, odd;
    MHD_UNSIGNED_LONG_LONG ms = 0;
    FD_ZERO(&to_read);
    FD_ZERO(&to_write);
    FD_ZERO(&odd);
    if (!mhd.get_fdset2(daemon, &to_read, &to_write, &odd, &most, FD_SETSIZE)) {
        complain("a socket has a number that select() does not take");
        return FAILED;
    }
    size_t connections = end_slow(s);
    /* Others wait in the kernel's queue: the library would accept and reset them. */
    if (connections >= WEB_CONNECTIONS) FD_CLR(s->listening, &to_read);
    struct timespec wait = {1, 0}, *limit = connections > 0 ? &wait : NULL;
    if (mhd.get_timeout(daemon, &ms) == MHD_YES && (limit == NULL || ms < 1000)) {
        wait.tv_sec = (time_t)(ms / 1000);
        wait.tv_nsec = (long)(ms % 1000) * 1000000;
        limit = &wait;
    }
    int n = pselect(most + 1, &to_read, &to_write, &odd, limit, outside);
    if (n < 0 && errno != EINTR) {
        complain("waiting for requests: %s", strerror(errno));
        return FAILED;
    }
    if (n < 0) return FINE;
    mhd.run_from_select(daemon, &to_read, &to_write, &odd);
    return FINE;
}

static void log_nothing(void *ctx, const char *format, va_list list)
{
    (void)ctx, (void)format, (void)list;
}

static int serve(server *s, int fd, const char *url)
{
    sigset_t outside;
    take_signals(&outside);
    s->listening = fd;
    struct MHD_Daemon *daemon = mhd.start_daemon(
        MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s,
        MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)WEB_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WEB_IDLE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)WEB_HEADER,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_END);
    if (daemon == NULL) {
        close(fd);
        complain("libmicrohttpd could not start");
        return FAILED;
    }
    int code = s->desc->ready(s->desc->ctx, url) ? FINE : FAILED;
    while (code == FINE && !asked_to_end) code = wait_and_run(s, daemon, &outside);
    mhd.stop_daemon(daemon);
    return code;
}

int web_serve(const web_server *desc)
{
    static server s;
    char url[WEB_URL];
    unsigned port = desc->port;
    const char *missing = load_microhttpd();
    if (missing != NULL) {
        complain("there is no %s on this machine, which serve needs (Debian: "
                 "libmicrohttpd12)", missing);
        return FAILED;
    }
    s.desc = desc;
    for (size_t i = 0; i < COUNT_OF(s.clients); i++) s.clients[i].fd = -1;
    if (!make_token(s.token)) return FAILED;
    int fd = listen_on(&port);
    if (fd < 0) return FAILED;
    static const char *const names[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        /* A browser leaves out the port that a URL has by itself. */
        snprintf(s.hosts[i], sizeof s.hosts[i], port == 80 ? "%s" : "%s:%u", names[i],
                 port);
    }
    snprintf(url, sizeof url, "http://%s/%s/", s.hosts[0], s.token);
    return serve(&s, fd, url);
}

#else

const char *web_argument(const web_request *r, const char *name)
{
    (void)r, (void)name;
    return NULL;
}

int web_serve(const web_server *s)
{
    (void)s;
    complain("this program was built without libmicrohttpd (Debian: libmicrohttpd-dev), "
             "which serve needs");
    return FAILED;
}
#endif
