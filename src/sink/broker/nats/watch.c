/* watch.c - how much a NATS server has sent; see nats_int.h.
 *
 * libnats buffers whatever a server announces, a message of a gigabyte or an endless line, without a limit. We cannot check
 * the bytes before it reads them, but the kernel counts them: a publisher gets an acknowledgement for each message, and from
 * time to time an update about the cluster. If a server sends far more, its connection is shut down before that is buffered.
 *
 * The library does not expose its descriptor; it is found by its port. We keep a duplicate, so that it refers to this
 * connection whatever the library does.
 *
 * While connecting, the library reads a line byte by byte, as long as bytes come, whatever its time limit. So another thread
 * waits until the time to connect is up, and then shuts down the new sockets to these servers. */
#include "sink/broker/nats/nats_int.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* At the beginning, for each message, and in each second. */
enum { ALLOWED = 262144, ALLOWED_EACH = 4096, ALLOWED_SECOND = 16384 };

static int local_port(int fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return -1;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port) : -1;
}

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

/* A duplicate of the connected socket with that port; -1: none. */
static int find_socket(int port)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; folder && found < 0 && (entry = readdir(folder));) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd <= 2 || local_port(fd) != port || !is_connected(fd))
            continue;
        found = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (found >= 0 && local_port(found) != port) { /* it was closed meanwhile, and is another's */
            close(found);
            found = -1;
        }
    }
    if (folder)
        closedir(folder);
    return found;
}

void ob_nats_watch_init(struct ob_nats_watch *watch)
{
    *watch = (struct ob_nats_watch){.fd = -1, .epoll = -1};
}

void ob_nats_watch_open(struct ob_nats_watch *watch, natsConnection *connection)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}; /* the library reads it, so only news count */
    char *ip = NULL;
    int port = 0;
    ob_nats_watch_init(watch);
    watch->since_us = ob_clock_mono_us();
    if (natsConnection_GetLocalIPAndPort(connection, &ip, &port) != NATS_OK)
        return; /* it is closed already */
    free(ip);
    watch->fd = find_socket(port);
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (watch->fd < 0 || watch->epoll < 0 || epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        ob_nats_watch_close(watch);
}

void ob_nats_watch_close(struct ob_nats_watch *watch)
{
    if (watch->epoll >= 0)
        close(watch->epoll);
    if (watch->fd >= 0)
        close(watch->fd);
    ob_nats_watch_init(watch);
}

bool ob_nats_watch_check(struct ob_nats_watch *watch)
{
    struct epoll_event event;
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (watch->fd < 0)
        return true;
    (void)epoll_wait(watch->epoll, &event, 1, 0);
    if (getsockopt(watch->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return true;
    int64_t seconds = (ob_clock_mono_us() - watch->since_us) / 1000000;
    uint64_t allowed = ALLOWED + ALLOWED_EACH * watch->sent + ALLOWED_SECOND * (uint64_t)seconds;
    if (info.tcpi_bytes_received <= allowed)
        return true;
    (void)shutdown(watch->fd, SHUT_RDWR);
    return false;
}

/* ---- while it connects ---- */

static bool is_peer(int fd, const struct ob_nats_guard *guard)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    char host[OB_ADDRESS_TEXT], port[8], text[OB_ADDRESS_TEXT + 8];
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 ||
        getnameinfo((struct sockaddr *)&peer, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    snprintf(text, sizeof text, "%s %s", host, port);
    for (size_t i = 0; i < guard->peer_count; i++)
        if (strcmp(guard->peers[i], text) == 0)
            return true;
    return false;
}

static bool was_there(int fd, const struct ob_nats_guard *guard)
{
    for (size_t i = 0; i < guard->old_count; i++)
        if (guard->old[i] == fd)
            return true;
    return false;
}

/* Calls for each of our sockets to one of the servers. */
static void each_peer(struct ob_nats_guard *guard, void (*call)(struct ob_nats_guard *guard, int fd))
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd > 2 && is_peer(fd, guard))
            call(guard, fd);
    }
    if (folder)
        closedir(folder);
}

static void keep(struct ob_nats_guard *guard, int fd)
{
    if (guard->old_count < sizeof guard->old / sizeof guard->old[0])
        guard->old[guard->old_count++] = fd;
}

static void hang_up(struct ob_nats_guard *guard, int fd)
{
    if (was_there(fd, guard))
        return;
    int held = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (held >= 0 && is_peer(held, guard))
        (void)shutdown(held, SHUT_RDWR);
    if (held >= 0)
        close(held);
}

/* Once more and more, should the library go on to another server. */
static void *stand_by(void *arg)
{
    enum { STEP_NS = 100000000 };
    struct ob_nats_guard *guard = arg;
    struct timespec until = {.tv_sec = guard->until_us / 1000000, .tv_nsec = guard->until_us % 1000000 * 1000};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&guard->mutex);
    while (!guard->over) {
        if (pthread_cond_timedwait(&guard->cond, &guard->mutex, &until) == 0 || guard->over)
            continue;
        each_peer(guard, hang_up);
        until.tv_nsec += STEP_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

void ob_nats_guard_peer(struct ob_nats_guard *guard, const char *address, int port)
{
    if (guard->peer_count < OB_NATS_PEERS)
        snprintf(guard->peers[guard->peer_count++], sizeof guard->peers[0], "%s %d", address, port);
}

bool ob_nats_guard_start(struct ob_nats_guard *guard, int64_t until_us)
{
    pthread_condattr_t attr;
    guard->until_us = until_us;
    guard->over = false;
    guard->old_count = 0;
    each_peer(guard, keep);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&guard->mutex, NULL);
    if (pthread_create(&guard->thread, NULL, stand_by, guard) == 0)
        return true;
    pthread_cond_destroy(&guard->cond);
    pthread_mutex_destroy(&guard->mutex);
    return false;
}

void ob_nats_guard_end(struct ob_nats_guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    guard->over = true;
    pthread_cond_signal(&guard->cond);
    pthread_mutex_unlock(&guard->mutex);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->cond);
    pthread_mutex_destroy(&guard->mutex);
}
