/* dial.h - the beginning of a connection to PostgreSQL: names of hosts become addresses, then libpq is called.
 *
 * libpq looks names up on the caller's thread and waits for the name servers. So it is given `hostaddr` beside `host`: it
 * connects to the address, and still checks certificates, finds passwords and makes its errors by the name. What is a
 * host is read the way libpq reads it: the conninfo, its service, the environment. Paths of sockets and addresses stay as
 * they are. */
#ifndef OB_STORE_PG_DIAL_H
#define OB_STORE_PG_DIAL_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

struct ob_pg_dial;

/* Of several hosts the list is turned by `turn`; when that came round, the addresses of each are. libpq tries them in
 * order, but gives up a silent one only in its blocking calls: who gave one up himself begins with the next. */
enum outbox_code ob_pg_dial_start(const char *conninfo, const char *application, int turn, struct ob_pg_dial **out,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Readable when go has news; valid until the dial is freed. */
int ob_pg_dial_fd(const struct ob_pg_dial *dial);
/* When to call go without news; INT64_MAX: never. Of the boot-time clock. */
int64_t ob_pg_dial_due_us(const struct ob_pg_dial *dial);
/* Never waits. OUTBOX_OK with *conn NULL: not yet. With *conn: it has begun to connect, and is the caller's, who goes on
 * with PQconnectPoll and sets the session up. */
enum outbox_code ob_pg_dial_go(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for the names, then connects. */
enum outbox_code ob_pg_dial_wait(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The name of a host that was not found yet; NULL: none. For errors. */
const char *ob_pg_dial_awaits(const struct ob_pg_dial *dial);
/* NULL is fine. */
void ob_pg_dial_free(struct ob_pg_dial *dial);

#endif
