/* A proxy between a client and a PostgreSQL server, over sockets in folders: it knows
 * where the messages of the protocol begin, and cuts a connection before one of them.
 *
 *   PROXY_CUT_UP    message n on the way to the server is not delivered, both sides close
 *   PROXY_CUT_DOWN  message n on the way back is not delivered, both sides close
 *   PROXY_LATE      from message n on nothing is delivered to the server, and the
 *                   client's side closes; 150 ms later, all that the client has sent is delivered
 *                   after all
 */

#ifndef PROXY_H
#define PROXY_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

typedef enum proxy_mode {
    PROXY_OFF, PROXY_CUT_UP, PROXY_CUT_DOWN, PROXY_LATE
} proxy_mode;

enum { PROXY_LINKS = 64, PROXY_ROOM = 1 << 20 };

typedef struct proxy_flow {
    unsigned char *bytes;     /* that are not delivered yet */
    size_t n;
    bool started;             /* the first message of a client has no type */
} proxy_flow;

typedef struct proxy_link {
    int client, server;       /* -1: closed */
    bool silent;              /* takes everything, delivers nothing */
    bool late;                /* holds what the client has sent, */
    int held;                 /* for so many rounds */
    bool over;                /* has delivered it: the server's side is to close */
    proxy_flow up, down;
} proxy_link;

typedef struct proxy {
    char folder[80];          /* of the proxy's socket */
    char target[100];         /* the server's socket */
    int listening;
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop;
    proxy_mode mode;
    int left;                 /* messages until the cut */
    bool cut;                 /* it has happened */
    proxy_link links[PROXY_LINKS];
} proxy;

static void proxy_write(int fd, const unsigned char *bytes, size_t n)
{
    while (n > 0 && fd >= 0) {
        ssize_t put = send(fd, bytes, n, MSG_NOSIGNAL);
        if (put <= 0) return;
        bytes += put;
        n -= (size_t)put;
    }
}

static void proxy_shut(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* The length of the message at the beginning; 0: not all of it is there. */
static size_t proxy_message(const proxy_flow *f, bool typed)
{
    size_t head = typed ? 1 : 0;
    if (f->n < head + 4) return 0;
    const unsigned char *p = f->bytes + head;
    size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    size += head;
    return size <= f->n ? size : 0;
}

/* Delivers whole messages until the cut. */
static void proxy_deliver(proxy *p, proxy_link *l, bool up)
{
    proxy_flow *f = up ? &l->up : &l->down;
    size_t size;
    while (!(up && l->late) && (size = proxy_message(f, !up || f->started)) > 0) {
        bool counts = p->mode == (up ? PROXY_CUT_UP : PROXY_CUT_DOWN) ||
                      (up && p->mode == PROXY_LATE);
        if (counts && !p->cut && p->left-- == 0) {
            p->cut = true;
            l->late = p->mode == PROXY_LATE;
            if (!l->late) {
                proxy_shut(&l->client);
                proxy_shut(&l->server);
            }
            return;
        }
        proxy_write(up ? l->server : l->client, f->bytes, size);
        memmove(f->bytes, f->bytes + size, f->n - size);
        f->n -= size;
        f->started = true;
    }
}

/* Reads what one side has sent. */
static void proxy_read(proxy *p, proxy_link *l, bool up)
{
    proxy_flow *f = up ? &l->up : &l->down;
    int *from = up ? &l->client : &l->server, *to = up ? &l->server : &l->client;
    ssize_t got = read(*from, f->bytes + f->n, PROXY_ROOM - f->n);
    if (got > 0 && l->silent) return;
    if (got > 0) {
        f->n += (size_t)got;
        proxy_deliver(p, l, up);
        /* libpq sends the messages of a statement together: they have come */
        if (up && l->late) proxy_shut(&l->client);
        return;
    }
    if (!(up && l->late)) proxy_shut(to);
    proxy_shut(from);
}

static void proxy_accept(proxy *p)
{
    struct sockaddr_un to;
    int client = accept(p->listening, NULL, NULL);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    memcpy(to.sun_path, p->target, sizeof p->target);
    if (client < 0 || connect(server, (struct sockaddr *)&to, sizeof to) != 0) {
        proxy_shut(&client);
        proxy_shut(&server);
        return;
    }
    for (int i = 0; i < PROXY_LINKS; i++) {
        proxy_link *l = &p->links[i];
        if (l->client >= 0 || l->server >= 0) continue;
        l->client = client;
        l->server = server;
        l->silent = l->late = l->over = l->up.started = l->down.started = false;
        l->held = 0;
        l->up.n = l->down.n = 0;
        if (l->up.bytes == NULL) l->up.bytes = (unsigned char *)malloc(PROXY_ROOM);
        if (l->down.bytes == NULL) l->down.bytes = (unsigned char *)malloc(PROXY_ROOM);
        return;
    }
    abort();
}

/* Delivers what was held long enough, and the end of the connection. */
static void proxy_after_all(proxy_link *l)
{
    if (l->late && l->client < 0 && ++l->held >= 30) {
        proxy_write(l->server, l->up.bytes, l->up.n);
        shutdown(l->server, SHUT_WR);
        l->late = false;
        l->over = true;
    }
    if (l->over && l->server < 0) l->over = false;
}

static void *proxy_run(void *arg)
{
    proxy *p = (proxy *)arg;
    while (!p->stop) {
        struct pollfd fds[2 * PROXY_LINKS + 1];
        fds[0].fd = p->listening;
        for (int i = 0; i < PROXY_LINKS; i++) {
            fds[1 + 2 * i].fd = p->links[i].client;
            fds[2 + 2 * i].fd = p->links[i].server;
        }
        for (int i = 0; i <= 2 * PROXY_LINKS; i++) {
            fds[i].events = POLLIN;
            fds[i].revents = 0;
        }
        poll(fds, 2 * PROXY_LINKS + 1, 5); /* a round */
        pthread_mutex_lock(&p->lock);
        for (int i = 0; i < PROXY_LINKS; i++) {
            proxy_link *l = &p->links[i];
            if (fds[1 + 2 * i].revents && l->client == fds[1 + 2 * i].fd)
                proxy_read(p, l, true);
            if (fds[2 + 2 * i].revents && l->server >= 0 &&
                l->server == fds[2 + 2 * i].fd)
                proxy_read(p, l, false);
            proxy_after_all(l);
        }
        if (fds[0].revents) proxy_accept(p);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void proxy_open(proxy *p, const char *folder, const char *server)
{
    struct sockaddr_un at;
    memset(p, 0, sizeof *p);
    snprintf(p->folder, sizeof p->folder, "%s/proxy", folder);
    snprintf(p->target, sizeof p->target, "%s/%s/.s.PGSQL.5432", folder, server);
    mkdir(p->folder, 0755);
    memset(&at, 0, sizeof at);
    at.sun_family = AF_UNIX;
    snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", p->folder);
    for (int i = 0; i < PROXY_LINKS; i++) p->links[i].client = p->links[i].server = -1;
    unlink(at.sun_path);
    p->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(p->listening, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(p->listening, 50) != 0)
        fail_msg("a proxy cannot listen at %s: %s", at.sun_path, strerror(errno));
    pthread_mutex_init(&p->lock, NULL);
    pthread_create(&p->thread, NULL, proxy_run, p);
}

static void proxy_arm(proxy *p, proxy_mode mode, int after)
{
    pthread_mutex_lock(&p->lock);
    p->mode = mode;
    p->left = after;
    p->cut = false;
    pthread_mutex_unlock(&p->lock);
}

/* The connections that there are stay open, and deliver nothing any more. */
static void proxy_silence(proxy *p)
{
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < PROXY_LINKS; i++) p->links[i].silent = true;
    pthread_mutex_unlock(&p->lock);
}

/* Did it cut? Returns when everything late is delivered and answered. */
static bool proxy_disarm(proxy *p)
{
    bool cut, late = true;
    for (int tries = 0; late && tries < 4000; tries++) {
        pthread_mutex_lock(&p->lock);
        cut = p->cut;
        p->mode = PROXY_OFF;
        late = false;
        for (int i = 0; i < PROXY_LINKS; i++)
            if (p->links[i].late || p->links[i].over) late = true;
        pthread_mutex_unlock(&p->lock);
        if (late) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return cut;
}

static void proxy_close(proxy *p)
{
    p->stop = true;
    pthread_join(p->thread, NULL);
    proxy_shut(&p->listening);
    for (int i = 0; i < PROXY_LINKS; i++) {
        proxy_shut(&p->links[i].client);
        proxy_shut(&p->links[i].server);
        free(p->links[i].up.bytes);
        free(p->links[i].down.bytes);
    }
}

#endif /* PROXY_H */
