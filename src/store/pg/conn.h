/* conn.h - a connection to PostgreSQL: made, made again, and asked why it failed. */
#ifndef OB_STORE_PG_CONN_H
#define OB_STORE_PG_CONN_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

enum { OB_PG_SERVER_MIN = 130000 };

/* Connects and sets the session up. The caller owns *conn: PQfinish. */
enum outbox_code ob_pg_connect(const char *conninfo, const char *application, PGconn **conn,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
/* In the place of *conn, which was lost: after a failure it is still that. The host's name is looked up anew. One try. */
enum outbox_code ob_pg_reconnect(const char *conninfo, const char *application, PGconn **conn,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
/* For PQsetNoticeReceiver. */
void ob_pg_ignore_notice(void *ctx, const PGresult *res);

/* Why it could not be made; returns OUTBOX_UNREACHABLE. */
enum outbox_code ob_pg_connect_failed(PGconn *conn, struct outbox_error *err);
/* The server is one that we can use. */
enum outbox_code ob_pg_check_server(PGconn *conn, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- why a statement failed ---- */

/* What the error text needs to know to say what to do. */
struct ob_pg_cause {
    PGconn *conn;
    const char *schema; /* NULL: the statement was not ours, so a missing table is not our schema missing */
    const char *role;   /* the group role that may run it: "relay"; NULL: not known */
};

/* Fills err from a result that is no success (NULL: there was none) and returns the code; never OUTBOX_OK. */
enum outbox_code ob_pg_error(const struct ob_pg_cause *cause, const PGresult *res, struct outbox_error *err);
/* The code for a SQLSTATE; ours: raised by a statement of ours. */
enum outbox_code ob_pg_code(const char *sqlstate, bool ours);
/* The code says that the connection is of no more use. */
bool ob_pg_lost(PGconn *conn, enum outbox_code code);

#endif
