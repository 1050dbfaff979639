/* wait.c - the store's wait: the doorbell of doorbell.h, created on the first wait.
 *
 * A worker claims, and waits after a claim that was not full. After a full claim it waits with timeout 0, which only lets the
 * doorbell do what is due. So a worker under load shows that it is busy, and producers need not ring.
 *
 * The first wait connects, whatever its timeout, and reports that there may be work: earlier rings were not heard. */
#include "store/pg/pg.h"

#include "store/pg/doorbell.h"

enum { CONNECT_US = 10000000 };

ob_code ob_pg_wait(struct ob_store *base, int64_t timeout_us, bool *woken, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    *woken = false;
    if (!store->doorbell) {
        struct ob_pg_doorbell_options options = {
            .conninfo = store->conninfo,
            .application = store->application,
            .schema = store->schema,
            .number = store->doorbell_number,
            .settings = store->doorbell_settings,
            .log = store->log,
        };
        ob_code code = ob_pg_doorbell_new(&options, &store->doorbell, err);
        if (code)
            return code;
        timeout_us = timeout_us > CONNECT_US ? timeout_us : CONNECT_US;
    }
    enum ob_doorbell_reason look;
    ob_code code = ob_pg_doorbell_wait(store->doorbell, timeout_us, &look, err);
    *woken = code == OUTBOX_OK && look != OB_WAKE_NOT;
    return code;
}
