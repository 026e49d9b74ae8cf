/* A web server for one reader on this machine: loopback only, reads only, over
 * libmicrohttpd, which is loaded when it is needed.
 *
 * (WE1) Nothing of the content leaves without the token of the URL, 128 bits of the
 * system's entropy, which is compared in constant time. The name of the host has to be
 * 127.0.0.1 or localhost with the port, since a page of another name that resolves to
 * this machine is of another origin; and a browser must not say that another origin asks.
 * (WE2) Only GET and HEAD. Each answer forbids to keep, to frame and to guess its type.
 * (WE3) Bounded: WEB_CONNECTIONS at once, WEB_SECONDS for a request and its answer,
 * WEB_HEADER bytes for a request, WEB_HELD bytes of answers that are not sent yet. */

#ifndef WEB_H
#define WEB_H

#include "base.h"

enum {
    WEB_CONNECTIONS = 32, WEB_IDLE = 10, WEB_SECONDS = 20, /* seconds */
    WEB_HEADER = 16384, WEB_HELD = 256 << 20, WEB_URL = 96
};

typedef struct web_request web_request;

/* An answer. The server frees the body. */
typedef struct web_answer {
    unsigned status;          /* of HTTP: 200, 400, 404, 500; the server's own: 403,
                               * 405, 503 */
    const char *type;         /* of the body */
    const char *policy;       /* Content-Security-Policy; NULL: nothing is allowed */
    char *body;               /* from malloc; NULL: none */
    size_t size;
} web_answer;

typedef struct web_server {
    unsigned port;            /* 0: a free one */
    void *ctx;
    /* Called once, when the server listens. url: with the token. False ends it. */
    bool (*ready)(void *ctx, const char *url);
    /* Answers a request for what follows the token in the path: "", or "sessions". */
    void (*answer)(void *ctx, const web_request *r, const char *name, web_answer *to);
} web_server;

/* Returns an argument of the request's URL, without its escapes; NULL: it has none. */
const char *web_argument(const web_request *r, const char *name);

/* Serves until SIGINT, SIGTERM or SIGHUP. Returns an exit code. */
int web_serve(const web_server *s);

#endif /* WEB_H */
