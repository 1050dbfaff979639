/* sqlite.c - the public functions of sqlite.h. */
#include "base/error.h"
#include "base/versioned.h"
#include "store/sqlite/borrow.h"

#include <outbox/sqlite.h>

enum outbox_code outbox_sqlite_enqueue(sqlite3 *db, const struct outbox_message *msg, struct outbox_receipt *receipt,
                                       struct outbox_error *err)
{
    struct outbox_message given = OUTBOX_MESSAGE_INIT;
    if (!db || !msg)
        return ob_error_set(err, OUTBOX_INVALID, "%s is NULL", db ? "msg" : "db");
    if (!ob_take_versioned(&given, sizeof given, msg))
        return ob_error_set(err, OUTBOX_INVALID, "msg has no size; initialise it with OUTBOX_MESSAGE_INIT");
    if (receipt && !ob_size_is_sane(receipt->size))
        return ob_error_set(err, OUTBOX_INVALID, "receipt has no size; initialise it with OUTBOX_RECEIPT_INIT");
    struct outbox_receipt made = OUTBOX_RECEIPT_INIT;
    enum outbox_code code = ob_sqlite_enqueue_on(db, &given, &made, err);
    if (!code && receipt)
        ob_give_versioned(receipt, &made, sizeof made);
    return code;
}
