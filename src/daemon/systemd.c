/* systemd.c - see systemd.h. */
#include "daemon/systemd.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return false;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    size_t size = offsetof(struct sockaddr_un, sun_path) + len;
    ssize_t sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, (socklen_t)size);
    close(fd);
    return sent == (ssize_t)strlen(text);
}

static bool notify_state(const char *state, const char *status)
{
    char text[512];
    if (!getenv("NOTIFY_SOCKET"))
        return false;
    /* A line break would start another assignment. */
    size_t len = status ? strcspn(status, "\n") : 0;
    snprintf(text, sizeof text, "%s%s%.*s", state, status ? "STATUS=" : "", (int)len, status ? status : "");
    return notify(text);
}

bool ob_systemd_ready(const char *status)
{
    return notify_state("READY=1\n", status);
}

bool ob_systemd_status(const char *status)
{
    return notify_state("", status);
}

bool ob_systemd_reloading(const char *status)
{
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n", ob_clock_mono_us());
    return notify_state(state, status);
}

bool ob_systemd_stopping(const char *status)
{
    return notify_state("STOPPING=1\n", status);
}

bool ob_systemd_watchdog(void)
{
    return notify_state("WATCHDOG=1\n", NULL);
}

int64_t ob_systemd_watchdog_us(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    long long value = strtoll(usec, &end, 10);
    return *end || value <= 0 ? 0 : value / 2;
}
