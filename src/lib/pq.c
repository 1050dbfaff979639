/* pq.c - the public face of pq.h. */
#include "base/error.h"
#include "lib/versioned.h"
#include "store/pg/borrow.h"

#include <outbox/pq.h>

enum outbox_code outbox_pq_enqueue(PGconn *conn, const char *schema, const struct outbox_message *msg,
                                   struct outbox_receipt *receipt, struct outbox_error *err)
{
    struct outbox_message given = OUTBOX_MESSAGE_INIT;
    if (!conn || !msg)
        return ob_error_set(err, OUTBOX_INVALID, "%s is NULL", conn ? "msg" : "conn");
    if (!ob_take_versioned(&given, sizeof given, msg))
        return ob_error_set(err, OUTBOX_INVALID, "msg has no size; initialise it with OUTBOX_MESSAGE_INIT");
    return ob_pg_enqueue_on(conn, schema ? schema : "outbox", &given, receipt, err);
}
