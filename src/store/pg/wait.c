/* wait.c - the store's wait: the doorbell of bell.h, made on the first wait.
 *
 * A worker claims, and waits when a claim did not come back full; after a full one too, with no timeout, which only lets
 * the bell do what is due. So a worker under load says that it is busy, and producers need not ring.
 *
 * The first wait connects, whatever its timeout, and says that there may be work: who rang before was not heard. */
#include "store/pg/pg.h"

#include "store/pg/bell.h"

enum { CONNECT_US = 10000000 };

ob_code ob_pg_wait(struct ob_store *base, int64_t timeout_us, bool *woken, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    *woken = false;
    if (!store->bell) {
        struct ob_pg_bell_options options = {
            .conninfo = store->conninfo,
            .application = store->application,
            .schema = store->schema,
            .number = store->bell_number,
            .settings = store->doorbell,
            .log = store->log,
        };
        ob_code code = ob_pg_bell_new(&options, &store->bell, err);
        if (code)
            return code;
        timeout_us = timeout_us > CONNECT_US ? timeout_us : CONNECT_US;
    }
    enum ob_bell_look look;
    ob_code code = ob_pg_bell_wait(store->bell, timeout_us, &look, err);
    *woken = code == OUTBOX_OK && look != OB_LOOK_NOT;
    return code;
}
