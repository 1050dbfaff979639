/* sqlite.c - the public face of sqlite.h. */
#include "base/error.h"
#include "lib/versioned.h"
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
    return ob_sqlite_enqueue_on(db, &given, receipt, err);
}
