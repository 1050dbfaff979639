"""Host names without a network: what getaddrinfo says in a program under test.

    env = names(tmp_path)

NAME.hangs.test gets no answer for a minute, as from name servers that are silent; NAME.here.test is 127.0.0.1.
"""
from support.sinkdrive import preload

CODE = r"""
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

static int ends(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    int asks = !hints || !(hints->ai_flags & AI_NUMERICHOST);
    if (name && asks && ends(name, ".hangs.test")) {
        sleep(60);
        return EAI_AGAIN;
    }
    return real(name && asks && ends(name, ".here.test") ? "127.0.0.1" : name, service, hints, list);
}
"""


def names(folder):
    return preload(str(folder), "names", CODE)
