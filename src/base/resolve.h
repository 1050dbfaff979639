/* resolve.h - addresses of host names, without the caller waiting.
 *
 *     struct ob_lookup *lookup = ob_lookup_start("db.example", wake_my_loop, ctx);
 *     ... later, on the caller's thread, when it was woken ...
 *     struct ob_addresses found;
 *     if (ob_lookup_poll(lookup, &found))   // found.count addresses, or found.error
 *         ob_lookup_free(lookup);
 *
 * getaddrinfo waits as long as name servers are silent, and nothing stops it. So it runs on threads of its own, which
 * nobody joins: a caller that has waited enough frees its lookup and goes on. There is no other limit of time: the caller
 * has one. A name that many ask for is asked for once. At most OB_LOOKUP_THREADS threads are at work, of them at most half
 * for names that were not answered quickly the last time, so that dead names are not in the way of good ones. An idle
 * resolver has no thread.
 *
 * From any thread; one lookup belongs to one caller. */
#ifndef OB_BASE_RESOLVE_H
#define OB_BASE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OB_LOOKUP_THREADS = 64, OB_ADDRESSES_MAX = 16, OB_ADDRESS_TEXT = 64 };

/* In the order in which they should be tried: "192.0.2.1", "2001:db8::1", "fe80::1%eth0". */
struct ob_addresses {
    int error;       /* 0, or one of getaddrinfo's */
    char reason[96]; /* for people, when there is an error */
    size_t count;    /* more than 0 when there is none */
    char text[OB_ADDRESSES_MAX][OB_ADDRESS_TEXT];
};

struct ob_lookup;

/* done is called once, on another thread or before this returns, and only wakes: it must not call the resolver. After
 * ob_lookup_free it is not called and not running. done may be NULL. An address is its own answer, at once. NULL: no
 * memory. */
struct ob_lookup *ob_lookup_start(const char *name, void (*done)(void *ctx), void *ctx);
/* False: not yet. True: found is filled, each time it is called. */
bool ob_lookup_poll(const struct ob_lookup *lookup, struct ob_addresses *found);
/* For those who may wait. The same, after at most so long. */
bool ob_lookup_wait(const struct ob_lookup *lookup, int64_t timeout_us, struct ob_addresses *found);
/* Never waits. NULL is fine. */
void ob_lookup_free(struct ob_lookup *lookup);

#endif
