/* pq.c - the public functions of pq.h. */
#include "base/error.h"
#include "base/versioned.h"
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
    if (receipt && !ob_size_is_sane(receipt->size))
        return ob_error_set(err, OUTBOX_INVALID, "receipt has no size; initialise it with OUTBOX_RECEIPT_INIT");
    struct outbox_receipt made = OUTBOX_RECEIPT_INIT;
    enum outbox_code code = ob_pg_enqueue_on(conn, schema ? schema : "outbox", &given, &made, err);
    if (!code && receipt)
        ob_give_versioned(receipt, &made, sizeof made);
    return code;
}
