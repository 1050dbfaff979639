/* tx.c - write transactions: short, and fair to other writers.
 *
 * A connection that waits for SQLite's one write lock sleeps 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100, 100 ... ms, and
 * tries the lock in between. If a relay takes the lock again as soon as it has released it, every one of these tries can fail,
 * and a producer with a timeout of a second would fail. Nothing shows that another connection is waiting. Hence two rules:
 *
 *   1. If others have written recently, do not take the lock for twice as long as we held it: two tries of three find it
 *      free, and of the 19 tries in a second one will. Deliveries are recorded first, because a crash in between would
 *      deliver them again: a settle may start on credit, and the claim after it waits for both.
 *   2. If we held the lock for more than half of the last 600 ms, do not take it for 110 ms: longer than the longest sleep,
 *      so that every waiting connection tries in that time, and gets it after 0.8 s at most. A relay that delivers anything
 *      between its claims never reaches this limit.
 *
 * The checkpoint runs after the lock is released, never while it is held. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

#include <time.h>

enum {
    GAP_MAX_US = 40000,
    CREDIT_US = 30000, /* what a settle may owe and still start */
    WINDOW_US = 600000,
    WINDOW_STALE_US = 1200000,
    BREATH_US = 110000,
    CONTENDED_US = 1000000,
};

static void sleep_until(int64_t mono_us)
{
    int64_t left = mono_us - ob_clock_mono_us();
    if (left <= 0)
        return;
    struct timespec pause = {left / 1000000, left % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Runs before the lock is requested. */
static ob_code pace(struct ob_sqlite_store *store, struct outbox_error *err)
{
    struct ob_sqlite_pace *pace = &store->pace;
    int64_t version, now = ob_clock_mono_us();
    ob_code code = ob_sqlite_number(store, OB_SQLITE_data_version, OB_NO_ARGS, 0, &version, err);
    if (code)
        return code;
    if (pace->version && version != pace->version)
        pace->contended_until_us = now + CONTENDED_US;
    pace->version = version;
    if (now >= pace->contended_until_us) {
        pace->owed_us = 0;
    } else if (!pace->urgent || pace->owed_us >= CREDIT_US) {
        sleep_until(pace->released_us + (pace->owed_us < GAP_MAX_US ? pace->owed_us : GAP_MAX_US));
        pace->owed_us = 0;
    }
    if (now - pace->window_us > WINDOW_US) {
        if (pace->window_held_us > WINDOW_US / 2 && now - pace->window_us < WINDOW_STALE_US)
            sleep_until(now + BREATH_US);
        pace->window_us = ob_clock_mono_us();
        pace->window_held_us = 0;
    }
    return OUTBOX_OK;
}

static void released(struct ob_sqlite_pace *pace)
{
    pace->released_us = ob_clock_mono_us();
    pace->held_us = pace->released_us - pace->began_us;
    pace->owed_us += 2 * pace->held_us;
    pace->window_held_us += pace->held_us;
}

int64_t ob_sqlite_pace_left(const struct ob_sqlite_pace *pace)
{
    int64_t now = ob_clock_mono_us(), owed = pace->owed_us < GAP_MAX_US ? pace->owed_us : GAP_MAX_US;
    return now < pace->contended_until_us && pace->released_us + owed > now ? pace->released_us + owed - now : 0;
}

/* SQLite may already have rolled back; then there is nothing left to do. */
static void roll_back(struct ob_sqlite_store *store)
{
    if (!sqlite3_get_autocommit(store->db))
        ob_sqlite_try(store, OB_SQLITE_rollback);
}

static ob_code take(struct ob_sqlite_store *store, struct outbox_error *err)
{
    ob_code code = pace(store, err);
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_begin, OB_NO_ARGS, NULL, err);
    store->pace.began_us = ob_clock_mono_us();
    return code;
}

static ob_code give(struct ob_sqlite_store *store, struct outbox_error *err)
{
    ob_code code = ob_sqlite_run(store, OB_SQLITE_commit, OB_NO_ARGS, NULL, err);
    if (code)
        roll_back(store);
    released(&store->pace);
    store->watch.stale = true;
    if (store->checkpoint) {
        /* If another connection's snapshot keeps it from completing, the next one will. */
        store->checkpoint = false;
        (void)sqlite3_wal_checkpoint_v2(store->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
    return code;
}

ob_code ob_sqlite_begin(struct ob_sqlite_store *store, struct outbox_error *err)
{
    if (store->open_tx)
        return ob_error_set(
            err, OUTBOX_INVALID,
            "a transaction is open on this handle; commit it or roll it back first, or use another handle");
    return take(store, err);
}

ob_code ob_sqlite_end(struct ob_sqlite_store *store, ob_code code, struct outbox_error *err)
{
    if (!code)
        return give(store, err);
    roll_back(store);
    released(&store->pace);
    return code;
}

ob_code ob_sqlite_open_tx(struct ob_store *base, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    if (store->open_tx)
        return ob_error_set(err, OUTBOX_INVALID, "a transaction is already open; commit it or roll it back first");
    ob_code code = take(store, err);
    store->open_tx = code == OUTBOX_OK;
    return code;
}

ob_code ob_sqlite_commit_tx(struct ob_store *base, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    if (!store->open_tx)
        return ob_error_set(err, OUTBOX_INVALID, "there is no transaction to commit; begin one first");
    store->open_tx = false;
    if (sqlite3_get_autocommit(store->db)) /* RAISE(ROLLBACK), or a full disk */
        return ob_error_set(err, OUTBOX_FAILED_TRANSACTION,
                            "the transaction had failed and was rolled back; begin a new one");
    return give(store, err);
}

ob_code ob_sqlite_rollback_tx(struct ob_store *base, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    if (!store->open_tx)
        return ob_error_set(err, OUTBOX_INVALID, "there is no transaction to roll back; begin one first");
    store->open_tx = false;
    roll_back(store);
    released(&store->pace);
    return OUTBOX_OK;
}

ob_code ob_sqlite_begin_read(struct ob_sqlite_store *store, bool *began, struct outbox_error *err)
{
    *began = false;
    if (!sqlite3_get_autocommit(store->db))
        return OUTBOX_OK;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_begin_read, OB_NO_ARGS, NULL, err);
    *began = code == OUTBOX_OK;
    return code;
}

void ob_sqlite_end_read(struct ob_sqlite_store *store, bool began)
{
    if (began)
        roll_back(store);
}
