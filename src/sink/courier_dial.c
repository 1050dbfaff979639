/* courier_dial.c - the way from a broker's name to a connected socket, for drivers; see courier.h.
 *
 * Waits on the courier's thread, no longer than connect_timeout, and not at all once the sink is closed. */
#include "sink/courier.h"

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

static void kick(void *courier)
{
    ob_courier_kick(courier);
}

static bool is_closed(struct ob_courier *courier)
{
    pthread_mutex_lock(&courier->mutex);
    bool stop = courier->stop;
    pthread_mutex_unlock(&courier->mutex);
    return stop;
}

/* Until the descriptor is ready (-1: none), the courier is kicked, or the time to connect is over. False: it is over. */
static bool wait_for(struct ob_courier *courier, int fd, short events, bool *ready)
{
    struct pollfd fds[2] = {{.fd = courier->event_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    int64_t left_us = courier->connect_until_us - ob_clock_mono_us();
    uint64_t count;
    if (left_us <= 0 || is_closed(courier))
        return false;
    (void)poll(fds, 2, (int)(left_us / 1000) + 1);
    if (fds[0].revents) {
        ssize_t got = read(courier->event_fd, &count, sizeof count);
        (void)got;
    }
    if (ready)
        *ready = fds[1].revents != 0;
    return true;
}

bool ob_courier_wait(struct ob_courier *courier, int fd, short events)
{
    bool ready = false;
    while (!ready && wait_for(courier, fd, events, &ready))
        ;
    ob_courier_kick(courier); /* who came meanwhile is looked at afterwards */
    return ready;
}

bool ob_courier_resolve(struct ob_courier *courier, const char *host, const char *place, struct ob_addresses *found,
                        struct ob_ruling *ruling)
{
    struct ob_lookup *lookup = ob_lookup_start(host, kick, courier);
    bool finished = false;
    if (!lookup) {
        ob_ruling_shortage(ruling);
        return false;
    }
    while (!(finished = ob_lookup_poll(lookup, found)) && wait_for(courier, -1, 0, NULL))
        ;
    ob_lookup_free(lookup);
    ob_courier_kick(courier);
    if (finished && !found->error)
        return true;
    if (finished)
        ob_ruling_unreachable(ruling, courier->driver->prefix, place, found->reason);
    else
        ob_ruling_unreachable(ruling, courier->driver->prefix, place, "no name server answered in time");
    return false;
}

/* A descriptor, or -1 and errno. */
static int connect_to(struct ob_courier *courier, const char *address, int port)
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
        if (!ob_courier_wait(courier, fd, POLLOUT))
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

int ob_courier_dial(struct ob_courier *courier, const struct ob_broker_url *url, struct ob_ruling *ruling)
{
    struct ob_addresses found;
    char place[OB_PLACE];
    int fd = -1;
    ob_broker_url_place(url, place);
    if (!ob_courier_resolve(courier, url->host, place, &found, ruling))
        return -1;
    for (size_t i = 0; fd < 0 && i < found.count; i++)
        fd = connect_to(courier, found.text[i], url->port);
    if (fd >= 0)
        return fd;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        const char *why = strerror(errno);
        ob_ruling_shortage(ruling);
        snprintf(ruling->text, sizeof ruling->text, "no socket: %s", why);
    } else if (errno == ETIMEDOUT) {
        ob_ruling_silent(courier, ruling, place);
    } else {
        ob_ruling_unreachable(ruling, courier->driver->prefix, place, strerror(errno));
    }
    return -1;
}
