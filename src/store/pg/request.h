/* request.h - one transaction sent to PostgreSQL without waiting, and its answer. async_conn.h carries it. */
#ifndef OB_STORE_PG_REQUEST_H
#define OB_STORE_PG_REQUEST_H

#include "store/pg/pg.h"

enum { OB_PG_PARTS_MAX = 2 };

/* One execution of a statement. */
struct ob_pg_part {
    enum ob_pg_stmt which;
    struct ob_buf scratch;
    struct ob_pg_params params;
    bool preparing; /* its statement is sent with it, and the server has not confirmed the prepare yet */
    PGresult *res;  /* owned; the rows */
};

/* One transaction of a few statements, from the request to the answer: all succeed, or none. The caller owns it, builds the
 * params of its parts (everything they borrow must outlive the request) and takes the answer when it is DONE: rows, or err. */
struct ob_pg_request {
    struct ob_pg_part parts[OB_PG_PARTS_MAX];
    int count; /* of its parts */
    int64_t deadline_us;
    enum ob_pg_request_state { OB_PG_IDLE, OB_PG_QUEUED, OB_PG_SENT, OB_PG_DONE } state;
    int answered;      /* so many parts have their rows */
    bool repeated;     /* sent again, because the server had forgotten a statement */
    PGresult *failure; /* owned; the first that was reported */
    struct outbox_error err;
};

/* Begins an idle request; its parts are added one by one. */
void ob_pg_request_begin(struct ob_pg_request *request, int64_t deadline_us);
struct ob_pg_params *ob_pg_request_add(struct ob_pg_request *request, enum ob_pg_stmt which);
/* Makes the pointers of all parts; false if memory ran out or a value is too large for the protocol. */
bool ob_pg_request_seal(struct ob_pg_request *request) OUTBOX_MUST_CHECK;
/* It is DONE at once. */
void ob_pg_request_fail(struct ob_pg_request *request, const struct outbox_error *err);
/* To be sent, or to be sent again: without results. */
void ob_pg_request_queue(struct ob_pg_request *request);
/* Takes a result of libpq: keeps what belongs to the answer. */
void ob_pg_request_keep(struct ob_pg_request *request, PGresult *res);
/* The rows of a part: now the caller's. */
PGresult *ob_pg_request_take(struct ob_pg_request *request, int part);
/* Idle again, the results freed. */
void ob_pg_request_reset(struct ob_pg_request *request);
void ob_pg_request_fini(struct ob_pg_request *request);

#endif
