/* flood.c - see flood.h.
 *
 * One mutex guards the list of users, their sockets and the thread. The watching thread holds it while it checks, so a
 * socket cannot be closed while it is being shut down. A socket that the library closed without notice is detected by its
 * inode, which then differs. */
#include "sink/curl/flood.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

enum {
    LOOK_NS = 10000000,        /* interval between checks */
    LOOK_SOON_NS = 1000000,    /* while there are floods: one is often followed by others */
    CROWD = 1000,              /* for this many checks after the last flood */
    LOOK_AT_ALL = 10,          /* all sockets are checked at every n-th check */
    LINGER = 100,              /* checks after the last answer: waking the thread for each answer would cost more */
    RECEIVE_BUFFER = 64 * 1024 /* what has come is still read after a cut: that is little */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;
static pthread_t thread;
static struct ob_list users = {&users, &users};
static unsigned waiting; /* users */
static unsigned crowd;   /* looks in a hurry that are left */
static bool ending, asleep;

/* ---- the watching thread: with the mutex ------------------------------------------------------------------------- */

static uint64_t bytes_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return 0;
    return info.tcpi_bytes_received;
}

static void look_at(const struct ob_flood *flood, struct ob_flood_socket *socket)
{
    struct stat is;
    uint64_t came = bytes_received(socket->fd);
    if (came <= socket->before || came - socket->before <= flood->most)
        return;
    if (fstat(socket->fd, &is) != 0 || is.st_ino != socket->inode)
        return;
    socket->cut = true;
    crowd = CROWD;
    /* Both ways: only then does the kernel refuse what comes from now on. */
    shutdown(socket->fd, SHUT_RDWR);
}

static void look(bool at_all)
{
    OB_LIST_EACH (it, &users) {
        struct ob_flood *flood = OB_CONTAINER(it, struct ob_flood, node);
        unsigned calls = atomic_load_explicit(&flood->calls, memory_order_relaxed);
        bool long_call = calls % 2 == 1 && calls == flood->seen;
        flood->seen = calls;
        if (!flood->waiting || (!long_call && !at_all))
            continue;
        OB_LIST_EACH (node, &flood->sockets) {
            struct ob_flood_socket *socket = OB_CONTAINER(node, struct ob_flood_socket, node);
            if (!socket->cut)
                look_at(flood, socket);
        }
    }
}

static void nap(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += crowd ? LOOK_SOON_NS : LOOK_NS;
    crowd -= crowd > 0;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (!ending && pthread_cond_timedwait(&news, &mutex, &until) != ETIMEDOUT)
        ;
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    for (unsigned turn = 1, quiet = 0; !ending; turn++) {
        quiet = waiting ? 0 : quiet + 1;
        while (quiet > LINGER && !waiting && !ending) {
            asleep = true;
            pthread_cond_wait(&news, &mutex);
        }
        asleep = false;
        nap();
        if (waiting)
            look(turn % LOOK_AT_ALL == 0);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Signals are for the threads that the program knows of. */
static bool start(void)
{
    pthread_condattr_t attr;
    sigset_t all, before;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&news, &attr);
    pthread_condattr_destroy(&attr);
    ending = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- for users --------------------------------------------------------------------------------------------------- */

/* Guards the coming and going of users, which may wait for the thread. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

bool ob_flood_init(struct ob_flood *flood, uint64_t most)
{
    *flood = (struct ob_flood){.most = most};
    ob_list_init(&flood->node);
    ob_list_init(&flood->sockets);
    pthread_mutex_lock(&door);
    bool ok = !ob_list_empty(&users) || start();
    if (ok) {
        pthread_mutex_lock(&mutex);
        ob_list_push(&users, &flood->node);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_unlock(&door);
    return ok;
}

void ob_flood_fini(struct ob_flood *flood)
{
    pthread_mutex_lock(&door);
    pthread_mutex_lock(&mutex);
    bool known = !ob_list_empty(&flood->node);
    ob_list_remove(&flood->node);
    waiting -= flood->waiting;
    ending = known && ob_list_empty(&users);
    if (ending)
        pthread_cond_signal(&news);
    pthread_mutex_unlock(&mutex);
    if (ending) {
        pthread_join(thread, NULL);
        pthread_cond_destroy(&news);
    }
    pthread_mutex_unlock(&door);
}

void ob_flood_open(struct ob_flood *flood, struct ob_flood_socket *socket, int fd)
{
    struct stat is;
    int room = RECEIVE_BUFFER;
    *socket = (struct ob_flood_socket){.fd = fd, .inode = fstat(fd, &is) == 0 ? is.st_ino : 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    pthread_mutex_lock(&mutex);
    ob_list_push(&flood->sockets, &socket->node);
    pthread_mutex_unlock(&mutex);
}

void ob_flood_close(struct ob_flood_socket *socket)
{
    pthread_mutex_lock(&mutex);
    ob_list_remove(&socket->node);
    pthread_mutex_unlock(&mutex);
}

void ob_flood_look(struct ob_flood *flood, struct ob_flood_socket *socket)
{
    pthread_mutex_lock(&mutex);
    if (!socket->cut)
        look_at(flood, socket);
    pthread_mutex_unlock(&mutex);
}

bool ob_flood_end(struct ob_flood_socket *socket)
{
    uint64_t came = bytes_received(socket->fd);
    pthread_mutex_lock(&mutex);
    socket->before = came;
    bool cut = socket->cut;
    pthread_mutex_unlock(&mutex);
    return cut;
}

void ob_flood_wait(struct ob_flood *flood, bool begins)
{
    if (flood->waiting == begins) /* only this thread changes it */
        return;
    pthread_mutex_lock(&mutex);
    flood->waiting = begins;
    waiting += begins ? 1 : -1u;
    if (waiting && asleep) {
        asleep = false;
        pthread_cond_signal(&news);
    }
    pthread_mutex_unlock(&mutex);
}
