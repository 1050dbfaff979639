/* dial.c - resolves a broker's name and connects a socket, for drivers; see broker.h.
 *
 * Blocks the broker thread, no longer than connect_timeout, and not at all once the sink is closed. */
#include "sink/broker/broker.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void kick(void *broker)
{
    ob_broker_kick(broker);
}

static bool is_closed(struct ob_broker *broker)
{
    pthread_mutex_lock(&broker->mutex);
    bool stop = broker->stop;
    pthread_mutex_unlock(&broker->mutex);
    return stop;
}

/* Waits until the descriptor is ready (-1: none), the broker thread is kicked, or the time to connect is up. False: it is
 * up, or the sink is being closed. */
static bool wait_for(struct ob_broker *broker, int fd, short events, bool *ready)
{
    struct pollfd fds[2] = {{.fd = broker->event_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    int64_t left_us = broker->connect_until_us - ob_clock_mono_us();
    uint64_t count;
    if (left_us <= 0 || is_closed(broker))
        return false;
    (void)poll(fds, 2, (int)(left_us / 1000) + 1);
    if (fds[0].revents) {
        ssize_t got = read(broker->event_fd, &count, sizeof count);
        (void)got;
    }
    if (ready)
        *ready = fds[1].revents != 0;
    return true;
}

bool ob_broker_wait(struct ob_broker *broker, int fd, short events)
{
    bool ready = false;
    while (!ready && wait_for(broker, fd, events, &ready))
        ;
    ob_broker_kick(broker); /* jobs that came meanwhile are handled afterwards */
    return ready;
}

bool ob_broker_resolve(struct ob_broker *broker, const char *host, const char *place, struct ob_addresses *found,
                       struct ob_verdict *verdict)
{
    struct ob_lookup *lookup = ob_lookup_start(host, kick, broker);
    bool finished = false;
    if (!lookup) {
        ob_verdict_shortage(verdict);
        return false;
    }
    while (!(finished = ob_lookup_poll(lookup, found)) && wait_for(broker, -1, 0, NULL))
        ;
    ob_lookup_free(lookup);
    ob_broker_kick(broker);
    if (finished && !found->error)
        return true;
    if (finished)
        ob_verdict_unreachable(verdict, broker->driver->prefix, place, found->reason);
    else
        ob_verdict_unreachable(verdict, broker->driver->prefix, place, "name resolution timed out");
    return false;
}

/* A descriptor, or -1 and errno. */
static int connect_to(struct ob_broker *broker, const char *address, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *info = NULL;
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &info)) {
        errno = EHOSTUNREACH;
        return -1;
    }
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), number = fd < 0 ? errno : 0,
        on = 1;
    socklen_t len = sizeof number;
    if (fd >= 0 && connect(fd, info->ai_addr, info->ai_addrlen) != 0)
        number = errno;
    freeaddrinfo(info);
    if (number == EINPROGRESS) {
        if (!ob_broker_wait(broker, fd, POLLOUT))
            number = ETIMEDOUT;
        else
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len);
    }
    if (!number) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    errno = number;
    return -1;
}

int ob_broker_dial(struct ob_broker *broker, const struct ob_broker_url *url, struct ob_verdict *verdict)
{
    struct ob_addresses found;
    char place[OB_PLACE];
    int fd = -1;
    ob_broker_url_place(url, place);
    if (!ob_broker_resolve(broker, url->host, place, &found, verdict))
        return -1;
    for (size_t i = 0; fd < 0 && i < found.count; i++)
        fd = connect_to(broker, found.text[i], url->port);
    if (fd >= 0)
        return fd;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        const char *why = strerror(errno);
        ob_verdict_shortage(verdict);
        snprintf(verdict->text, sizeof verdict->text, "no socket: %s", why);
    } else if (errno == ETIMEDOUT) {
        ob_verdict_silent(broker, verdict, place);
    } else {
        ob_verdict_unreachable(verdict, broker->driver->prefix, place, strerror(errno));
    }
    return -1;
}
