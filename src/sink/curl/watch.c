/* watch.c - the sockets of a curl_loop.
 *
 * When a transfer ends, its connection is kept, and libcurl stops waiting for it until the next one: leaving and entering
 * the poll set for each message would cost two extra system calls. So a socket that we opened stays watched for reading
 * until it is closed; if it becomes readable in between, which means that the peer closed it, the watch is stopped. Sockets
 * that libcurl opens for itself (the resolver's) are watched exactly as it says, because it does not announce their closing.
 *
 * Nor does it announce the closing of a socket whose connect timed out (libcurl 7.88): the socket is already closed when
 * libcurl says that it no longer waits for it, and its number may be reused. So a watch identifies its socket by the inode. */
#include "sink/curl/loop_int.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECES = 8 }; /* an answer that comes in more is looked at now and then */

struct watch {
    uv_poll_t poll;
    ob_curl_loop *loop;
    int fd, events;
    unsigned pieces; /* of this answer */
    ino_t inode;
    struct ob_flood_socket flood; /* when it is ours */
    bool ours;                    /* opened by us: its closing goes through us, nearly always */
    bool idle;                    /* libcurl does not wait for it now */
};

static struct watch *watch_of(ob_curl_loop *loop, int fd)
{
    return fd >= 0 && (size_t)fd < loop->watch_count ? loop->watches[fd] : NULL;
}

static bool watches_reach(ob_curl_loop *loop, int fd)
{
    size_t need = (size_t)fd + 1;
    if (need <= loop->watch_count)
        return true;
    if (need < 2 * loop->watch_count)
        need = 2 * loop->watch_count;
    struct watch **grown = ob_realloc(loop->watches, loop->watch_count * sizeof *grown, need * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + loop->watch_count, 0, (need - loop->watch_count) * sizeof *grown);
    loop->watches = grown;
    loop->watch_count = need;
    return true;
}

static ino_t inode_of(int fd)
{
    struct stat is;
    return fstat(fd, &is) == 0 ? is.st_ino : 0;
}

static struct watch *watch_new(ob_curl_loop *loop, int fd, bool ours)
{
    struct watch *watch = watches_reach(loop, fd) ? ob_calloc(1, sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    if (uv_poll_init_socket(loop->uv, &watch->poll, fd) != 0) {
        ob_free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->loop = loop;
    watch->fd = fd;
    watch->inode = inode_of(fd);
    watch->ours = ours;
    watch->idle = true;
    loop->watches[fd] = watch;
    if (ours)
        ob_flood_open(&loop->flood, &watch->flood, fd);
    return watch;
}

static void watch_closed(uv_handle_t *handle)
{
    ob_free(handle->data);
}

void ob_curl_watch_close(struct watch *watch)
{
    if (!watch)
        return;
    watch->loop->watches[watch->fd] = NULL;
    if (watch->ours)
        ob_flood_close(&watch->flood);
    uv_close((uv_handle_t *)&watch->poll, watch_closed);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    if (watch->idle) {
        uv_poll_stop(poll);
        watch->events = 0;
        return;
    }
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    if (status <
        0) { /* an error on the socket, and the watch has ended: what the peer said before is still to be read */
        watch->events = 0;
        flags = CURL_CSELECT_IN | CURL_CSELECT_OUT;
    }
    if (watch->ours && ++watch->pieces % PIECES == 0)
        ob_flood_look(&watch->loop->flood, &watch->flood);
    ob_curl_act(watch->loop, watch->fd, flags);
}

/* The answer is there, or there will be none. */
static void watch_rest(struct watch *watch, CURL *easy)
{
    struct ob_curl_call *call = NULL;
    if (watch)
        watch->pieces = 0;
    if (!watch || !watch->ours || !ob_flood_end(&watch->flood))
        return;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    if (call)
        call->flooded = true;
}

/* libcurl: wait for this socket so, or not any more. */
int ob_curl_on_wish(CURL *easy, curl_socket_t fd, int what, void *data, void *unused)
{
    (void)unused;
    ob_curl_loop *loop = data;
    struct watch *watch = watch_of(loop, fd);
    if (what == CURL_POLL_REMOVE) {
        watch_rest(watch, easy);
        bool gone = watch && watch->inode != inode_of(fd);
        loop->unannounced |= gone;
        if (watch && watch->ours && !gone)
            watch->idle = true;
        else
            ob_curl_watch_close(watch);
        return 0;
    }
    if (!watch && !(watch = watch_new(loop, fd, false)))
        return -1;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    watch->idle = false;
    if (watch->events == events)
        return 0;
    watch->events = events;
    return uv_poll_start(&watch->poll, events, on_ready) == 0 ? 0 : -1;
}

/* libcurl: open a socket for this address. */
curl_socket_t ob_curl_on_open(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct ob_curl_call *call = data;
    if (purpose != CURLSOCKTYPE_IPCXN || !ob_net_guard_passes(call->loop->guard, &address->addr, address->addrlen)) {
        call->refused++;
        return CURL_SOCKET_BAD;
    }
    call->dialled++;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
    if (fd < 0) {
        call->starved = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        return CURL_SOCKET_BAD;
    }
    if (!watch_new(call->loop, fd, true)) {
        call->starved = true;
        close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd;
}

int ob_curl_on_close(void *data, curl_socket_t fd)
{
    ob_curl_watch_close(watch_of(data, fd));
    return close(fd);
}

/* libcurl: the connection is there, new or used, and the request is about to leave. */
int ob_curl_on_request(void *data, char *peer, char *own, int peer_port, int own_port)
{
    (void)own;
    (void)peer_port;
    (void)own_port;
    struct ob_curl_call *call = data;
    if (call->sent) {
        call->resent = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (!ob_net_guard_passes_text(call->loop->guard, peer)) {
        call->refused++;
        return CURL_PREREQFUNC_ABORT;
    }
    call->sent = true;
    return CURL_PREREQFUNC_OK;
}
