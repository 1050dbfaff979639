/* dial.h - starts a connection to PostgreSQL: resolves host names, then calls libpq.
 *
 * libpq resolves names on the caller's thread and blocks. So it is given `hostaddr` in addition to `host`: it connects to the
 * address, and still uses the name for certificates, passwords and error messages. Hosts come from where libpq takes them: the
 * conninfo, its service, the environment. Socket paths and addresses are passed on unchanged. */
#ifndef OB_STORE_PG_DIAL_H
#define OB_STORE_PG_DIAL_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

struct ob_pg_dial;

/* The list of hosts is rotated by `turn`; after each full rotation, the addresses of each host are rotated. libpq tries them in
 * order, but gives up on an unresponsive one only in its blocking calls: a caller that gave up on one starts with the next. */
enum outbox_code ob_pg_dial_start(const char *conninfo, const char *application, int turn, struct ob_pg_dial **out,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Readable when go should be called; valid until the dial is freed. */
int ob_pg_dial_fd(const struct ob_pg_dial *dial);
/* When to call go even if fd is not readable, on the boot-time clock; INT64_MAX: never. */
int64_t ob_pg_dial_due_us(const struct ob_pg_dial *dial);
/* Never blocks. OUTBOX_OK with *conn NULL: not yet. With *conn set, connecting has begun: the caller owns it, continues with
 * PQconnectPoll and sets up the session. */
enum outbox_code ob_pg_dial_go(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for the names, then connects. */
enum outbox_code ob_pg_dial_wait(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The name of a host that is not resolved yet, for error messages; NULL: none. */
const char *ob_pg_dial_awaits(const struct ob_pg_dial *dial);
/* NULL is fine. */
void ob_pg_dial_free(struct ob_pg_dial *dial);

#endif
