/* conn.h - connecting to PostgreSQL, reconnecting, and why either failed. */
#ifndef OB_STORE_PG_CONN_H
#define OB_STORE_PG_CONN_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

enum { OB_PG_SERVER_MIN = 130000 };

/* Connects and sets up the session. The caller owns *conn: PQfinish. */
enum outbox_code ob_pg_connect(const char *conninfo, const char *application, PGconn **conn,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Replaces *conn, which was lost; on failure *conn is unchanged. Resolves the host name again. Tries once. */
enum outbox_code ob_pg_reconnect(const char *conninfo, const char *application, PGconn **conn,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
/* For PQsetNoticeReceiver. */
void ob_pg_ignore_notice(void *ctx, const PGresult *res);

/* Why connecting failed; returns OUTBOX_UNREACHABLE. */
enum outbox_code ob_pg_connect_failed(PGconn *conn, struct outbox_error *err);
/* Checks that we can use this server. */
enum outbox_code ob_pg_check_server(PGconn *conn, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- why a statement failed ---- */

/* What an error text needs to know to suggest a fix. */
struct ob_pg_cause {
    PGconn *conn;
    const char *schema; /* NULL: the statement was not ours, so a missing table is not our schema missing */
    const char *role;   /* the group role that may run it, such as "relay"; NULL: not known */
};

/* Fills err from a failed result (NULL: there was none) and returns the code, never OUTBOX_OK. */
enum outbox_code ob_pg_error(const struct ob_pg_cause *cause, const PGresult *res, struct outbox_error *err);
/* The code for a SQLSTATE; ours: one of our statements raised it. */
enum outbox_code ob_pg_code(const char *sqlstate, bool ours);
/* True if the code means that the connection is lost. */
bool ob_pg_lost(PGconn *conn, enum outbox_code code);

#endif
