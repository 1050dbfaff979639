/* net_guard.h - which addresses a sink may dial.
 *
 * A URL may come from a message, and a name may resolve to anything: so the guard checks the address that is about to be
 * dialled, never the text. Every address outside the public internet is refused, unless the configuration allows it. An
 * IPv4 address embedded in an IPv6 address is checked as that IPv4 address; an address of an unknown form is refused. */
#ifndef OB_SINK_CURL_NET_GUARD_H
#define OB_SINK_CURL_NET_GUARD_H

#include <outbox/outbox.h>
#include <sys/socket.h>

struct ob_net_range; /* a CIDR */

struct ob_net_guard {
    struct ob_net_range *allowed; /* owned */
    size_t count;
};

void ob_net_guard_init(struct ob_net_guard *guard);
void ob_net_guard_fini(struct ob_net_guard *guard);
/* "127.0.0.0/8", "::1", or "any", which turns the guard off. */
enum outbox_code ob_net_guard_allow(struct ob_net_guard *guard, const char *cidr,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Whether this address may be dialled. */
bool ob_net_guard_passes(const struct ob_net_guard *guard, const struct sockaddr *address, size_t len);
/* The same for a numeric address as text. */
bool ob_net_guard_passes_text(const struct ob_net_guard *guard, const char *address);

#endif
