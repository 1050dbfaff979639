/* resolve.h - resolves host names without blocking the caller.
 *
 *     struct ob_lookup *lookup = ob_lookup_start("db.example", wake_my_loop, ctx);
 *     ... later, on the caller's thread, when it was woken ...
 *     struct ob_addresses found;
 *     if (ob_lookup_poll(lookup, &found))   // found.count addresses, or found.error
 *         ob_lookup_free(lookup);
 *
 * getaddrinfo blocks while name servers do not answer, and cannot be cancelled. So it runs on threads of its own, which are
 * never joined: a caller that has waited long enough frees its lookup and continues. There is no other timeout; the caller
 * has its own. Several lookups of the same name share one query. At most OB_LOOKUP_THREADS threads run, at most half of them
 * for names that were not answered quickly the last time, so that dead names do not delay good ones. An idle resolver has no
 * thread.
 *
 * Any thread may call these functions; one lookup belongs to one caller. */
#ifndef OB_BASE_RESOLVE_H
#define OB_BASE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OB_LOOKUP_THREADS = 64, OB_ADDRESSES_MAX = 16, OB_ADDRESS_TEXT = 64 };

/* In the order in which they should be tried: "192.0.2.1", "2001:db8::1", "fe80::1%eth0". */
struct ob_addresses {
    int error;       /* 0, or one of getaddrinfo's */
    char reason[96]; /* text for display, when there is an error */
    size_t count;    /* more than 0 when there is no error */
    char text[OB_ADDRESSES_MAX][OB_ADDRESS_TEXT];
};

struct ob_lookup;

/* done is called once, on another thread or before this returns. It should only wake the caller, and must not call the
 * resolver. After ob_lookup_free it is neither called nor running. done may be NULL. If name is an address, it is the answer,
 * at once. Returns NULL when out of memory. */
struct ob_lookup *ob_lookup_start(const char *name, void (*done)(void *ctx), void *ctx);
/* False: not answered yet. True: found is filled in, at every call. */
bool ob_lookup_poll(const struct ob_lookup *lookup, struct ob_addresses *found);
/* The same, but blocks for at most timeout_us. */
bool ob_lookup_wait(const struct ob_lookup *lookup, int64_t timeout_us, struct ob_addresses *found);
/* Never waits. NULL is fine. */
void ob_lookup_free(struct ob_lookup *lookup);

#endif
