/* async_claim.c - claims of the async store: from the log, from the queue, or from one after the other.
 *
 *   NONE ──claim──▶ TAKE ──nothing there──▶ QUEUE ──▶ answered      TAKE: a window, and in the same round trip its page
 *             │     │  └─page unread──▶ PAGE ──▶ answered           QUEUE: SQL claim
 *             │     └─log of another server──▶ REBASE ──▶ TAKE
 *             └──▶ QUEUE ──nothing there──▶ TAKE
 *
 * A claim for some messages only (ob_pg_claim_takes) asks the queue alone, and that statement puts messages of the log into
 * the queue first. All others ask both by turns: the log is usually all there is, and the queue has what failed, waits for its time
 * or has a priority. Whether it has rows, every take tells; so when it has none, a claim costs one round trip. While the log has
 * messages, or is looked at for a reason of our own (we are busy, or the log was), a queue whose rows are all for later is asked less
 * and less often, down to once in 25 ms, unless something stirs: a ring, a poll, a settle. One that had something is asked
 * each time.
 *
 * A window that was taken but could not be read ends with its lease, like messages of a claim whose answer was lost. */
#include "store/pg/async_int.h"

#include "base/clock.h"
#include "base/crash.h"
#include "core/batch.h"

enum { QUEUE_FIRST_US = 2000, QUEUE_US = 25000, BUSY_US = 5000, BUSY_CAP_US = 50000, HINTS_MAX = 3 };
/* In the order of sql/postgres/stmt/take.sql. */
enum { SHARD, ID, SIZE, MORE, BUSY, QUEUED, TAKEN_AT, UNTIL, MAX_ATTEMPTS, RETRY_BASE, RETRY_CAP };

/* ---- where to look ---- */

static bool log_due(const struct ob_pg_claiming *claiming)
{
    return claiming->log_stirred || claiming->log_more;
}

static bool queue_due(const struct ob_pg_claiming *claiming, int64_t now_us)
{
    return claiming->queued && (claiming->queue_stirred || claiming->queue_more ||
                                now_us - claiming->queue_looked_us >= claiming->queue_pause_us);
}

static void pace_queue(struct ob_pg_claiming *claiming, bool found)
{
    int64_t pause_us = 2 * claiming->queue_pause_us;
    pause_us = pause_us < QUEUE_FIRST_US ? QUEUE_FIRST_US : pause_us > QUEUE_US ? QUEUE_US : pause_us;
    claiming->queue_pause_us = found ? 0 : pause_us;
}

static bool queue_first(const struct ob_pg_claiming *claiming, int64_t now_us)
{
    if (!claiming->takes)
        return true;
    return claiming->last_took ? queue_due(claiming, now_us) : claiming->queue_more && !log_due(claiming);
}

void ob_pg_async_stir(struct ob_pg_async *async, bool log, bool queue)
{
    async->claiming.log_stirred |= log;
    async->claiming.queue_stirred |= queue;
}

static void wake_at(struct ob_pg_async *async, int64_t at_us)
{
    if (at_us < async->wake_us)
        async->wake_us = at_us;
}

void ob_pg_async_window_closed(struct ob_pg_async *async)
{
    if (!async->claiming.log_busy)
        return;
    ob_pg_async_stir(async, true, false);
    wake_at(async, 0);
}

/* After an answer: when to wake the host, though nobody rings. */
static void plan_wake(struct ob_pg_async *async, bool more, int64_t now_us)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    if (more)
        return;
    if (claiming->log_busy) {
        if (claiming->backoff_us < BUSY_US)
            claiming->backoff_us = BUSY_US;
        wake_at(async, now_us + (ob_pg_log_keyed(&async->log) ? BUSY_CAP_US : claiming->backoff_us));
        claiming->backoff_us = claiming->backoff_us < BUSY_CAP_US / 2 ? 2 * claiming->backoff_us : BUSY_CAP_US;
    }
    if (claiming->takes && claiming->queued && !claiming->looked)
        wake_at(async, claiming->queue_looked_us + claiming->queue_pause_us);
}

/* ---- asking ---- */

/* The shard without keys again, if the last window was full of its messages: that saves looking at all of them. */
static int hint(const struct ob_pg_claiming *claiming)
{
    bool again = claiming->log_more && claiming->taken.shard < 0 && claiming->taken.size >= claiming->limit;
    return again && claiming->hints < HINTS_MAX ? -1 : OB_PG_SHARD_ANY;
}

static void ask_log(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    claiming->step = OB_PG_CLAIM_TAKE;
    claiming->took = claiming->last_took = true;
    claiming->log_stirred = false;
    ob_pg_async_send(async, OB_PG_CLAIMS, &claiming->take);
    ob_pg_async_send(async, OB_PG_CLAIMS, &claiming->page);
}

static void ask_queue(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    claiming->step = OB_PG_CLAIM_QUEUE;
    claiming->looked = true;
    claiming->last_took = false;
    claiming->queue_stirred = false;
    claiming->queue_looked_us = ob_clock_boot_us();
    ob_pg_async_send(async, OB_PG_CLAIMS, &claiming->queue);
}

static void begin_take(struct ob_pg_async *async, const struct outbox_claim *want, int64_t deadline_us)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    int shard = hint(claiming);
    int64_t nonce = ob_pg_log_nonce(&async->log);
    claiming->hints = shard == OB_PG_SHARD_ANY ? 0 : claiming->hints + 1;
    claiming->taken = (struct ob_pg_taken){.nonce = nonce, .lease_us = want->lease_us, .asked_us = ob_clock_boot_us()};
    ob_pg_request_begin(&claiming->take, deadline_us);
    ob_pg_take_params(ob_pg_request_add(&claiming->take, OB_PG_take), want, nonce, shard);
    ob_pg_request_begin(&claiming->page, deadline_us);
    ob_pg_put_int8(ob_pg_request_add(&claiming->page, OB_PG_page), nonce);
    ob_pg_request_begin(&claiming->rebase, deadline_us);
    ob_pg_request_add(&claiming->rebase, OB_PG_rebase);
}

void ob_pg_async_claim(struct ob_async_store *base, const struct outbox_claim *want, int64_t timeout_us)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    struct ob_pg_claiming *claiming = &async->claiming;
    int64_t deadline_us = ob_pg_async_deadline(timeout_us);
    claiming->takes = ob_pg_claim_takes(want) && !claiming->refused;
    claiming->filtered = ob_pg_claim_filtered(want);
    claiming->took = claiming->looked = claiming->reread = claiming->rebased = false;
    claiming->again = async->woken_again;
    async->woken_again = false;
    begin_take(async, want, deadline_us);
    claiming->limit = want->limit;
    /* A crash of the server may undo a relaxed settle: then what it holds under our name is not what we hold. */
    struct outbox_claim queue = *want;
    queue.prefetch = want->prefetch && !async->common.relaxed;
    ob_pg_request_begin(&claiming->queue, deadline_us);
    ob_pg_claim_params(ob_pg_request_add(&claiming->queue, OB_PG_claim), &queue, !claiming->takes);
    async->wake_us = INT64_MAX;
    ob_pg_doorbell_claiming(async->doorbell);
    if (queue_first(claiming, ob_clock_boot_us())) {
        /* If the log was asked last, and nothing has stirred since, it need not be asked again now. */
        claiming->took = !claiming->takes || (claiming->last_took && !log_due(claiming));
        ask_queue(async);
    } else {
        ask_log(async);
    }
}

/* ---- answers ---- */

static void reset(struct ob_pg_claiming *claiming)
{
    ob_pg_request_reset(&claiming->take);
    ob_pg_request_reset(&claiming->page);
    ob_pg_request_reset(&claiming->queue);
    ob_pg_request_reset(&claiming->rebase);
    claiming->step = OB_PG_CLAIM_NONE;
}

static void tell_failed(struct ob_pg_async *async, const struct outbox_error *cause)
{
    struct outbox_error err = *cause;
    reset(&async->claiming);
    async->looked_us = ob_clock_boot_us();
    ob_pg_async_stir(async, true, true);
    async->host.claimed(async->host.ctx, err.code, &err, NULL);
}

/* more: as the store said; again: there may be more elsewhere. */
static void tell(struct ob_pg_async *async, struct outbox_batch *batch, bool more, bool again)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    struct ob_pg_claiming *claiming = &async->claiming;
    int64_t now_us = ob_clock_boot_us();
    reset(claiming);
    async->looked_us = now_us;
    batch->more = more || again;
    plan_wake(async, batch->more || batch->size >= (size_t)claiming->limit, now_us);
    ob_pg_doorbell_claimed(async->doorbell, batch->size, more || batch->size == (size_t)claiming->limit,
                           claiming->filtered);
    async->host.claimed(async->host.ctx, OUTBOX_OK, &err, batch);
}

/* Nothing was found; the page has no rows then. */
static void tell_none(struct ob_pg_async *async, bool again)
{
    struct outbox_error err;
    struct outbox_batch *batch;
    if (ob_pg_page_read(ob_pg_request_take(&async->claiming.page, 0), NULL, &batch, &err))
        tell_failed(async, &err);
    else
        tell(async, batch, false, again);
}

/* The messages of the window that was taken. */
static void paged(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    struct outbox_error err = claiming->page.err;
    struct outbox_batch *batch;
    bool read = !err.code && PQntuples(claiming->page.parts[0].res) > 0;
    if (!read && !claiming->reread) {
        /* The connection was cut behind the take, or the take was sent anew, behind the page. */
        claiming->reread = true;
        claiming->step = OB_PG_CLAIM_PAGE;
        ob_pg_request_reset(&claiming->page);
        ob_pg_async_send(async, OB_PG_CLAIMS, &claiming->page);
        return;
    }
    ob_pg_async_heard(async, &err);
    if (err.code) {
        tell_failed(async, &err);
        return;
    }
    if (!read) {
        tell_none(async, true); /* all of it was erased meanwhile, or the lease has ended */
        return;
    }
    if (ob_pg_page_read(ob_pg_request_take(&claiming->page, 0), &claiming->terms, &batch, &err)) {
        tell_failed(async, &err);
        return;
    }
    if (!ob_pg_log_open(&async->log, &claiming->taken, batch, ob_clock_boot_us())) {
        batch->free(batch);
        ob_error_nomem(&err);
        tell_failed(async, &err);
        return;
    }
    claiming->backoff_us = BUSY_US;
    tell(async, batch, claiming->log_more, claiming->hints > 0 || queue_due(claiming, ob_clock_boot_us()));
}

static void rebase(struct ob_pg_async *async)
{
    async->claiming.rebased = true;
    async->claiming.step = OB_PG_CLAIM_REBASE;
    ob_pg_async_send(async, OB_PG_CLAIMS, &async->claiming.rebase);
    OB_CRASH_POINT("rebasing");
}

static void took(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    struct outbox_error err = claiming->take.err;
    ob_pg_async_heard(async, &err);
    if (err.code == OUTBOX_RESTORED && !claiming->rebased) {
        rebase(async);
        return;
    }
    if (err.code == OUTBOX_TENANT && !claiming->page.err.code) {
        claiming->refused = true; /* the session has a tenant: it claims */
        tell_none(async, true);
        return;
    }
    if (err.code) {
        tell_failed(async, &err);
        return;
    }
    const PGresult *res = claiming->take.parts[0].res;
    claiming->taken.shard = ob_pg_int4(res, 0, SHARD);
    claiming->taken.id = ob_pg_int8(res, 0, ID);
    claiming->taken.size = ob_pg_int4(res, 0, SIZE);
    claiming->log_more = ob_pg_bool(res, 0, MORE);
    claiming->log_busy = ob_pg_bool(res, 0, BUSY);
    claiming->queued = ob_pg_bool(res, 0, QUEUED);
    claiming->terms = (struct ob_pg_terms){
        .taken_at_us = ob_pg_time(res, 0, TAKEN_AT),
        .until_us = ob_pg_time(res, 0, UNTIL),
        .max_attempts = ob_pg_int4(res, 0, MAX_ATTEMPTS),
        .retry_base_ms = ob_pg_int4(res, 0, RETRY_BASE),
        .retry_cap_ms = ob_pg_int4(res, 0, RETRY_CAP),
    };
    if (claiming->taken.size > 0) {
        OB_CRASH_POINT("taken");
        paged(async);
    } else if (!claiming->looked && claiming->queued && (!claiming->again || queue_due(claiming, ob_clock_boot_us()))) {
        ask_queue(async);
    } else {
        tell_none(async, claiming->log_more);
    }
}

static void claimed(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    struct outbox_error err = claiming->queue.err;
    struct outbox_batch *batch = NULL;
    ob_pg_async_heard(async, &err);
    if (err.code == OUTBOX_RESTORED && !claiming->rebased) {
        rebase(async);
        return;
    }
    if (!err.code)
        err.code = ob_pg_claim_read(ob_pg_request_take(&claiming->queue, 0), &batch, &err);
    if (err.code) {
        tell_failed(async, &err);
        return;
    }
    claiming->queue_more = batch->more || batch->size >= (size_t)claiming->limit;
    pace_queue(claiming, batch->size > 0);
    if (batch->size == 0 && !batch->more && !claiming->took) {
        batch->free(batch);
        ask_log(async);
    } else {
        /* What has stirred since the log was asked has woken the host, too. */
        bool again = claiming->log_more || (claiming->log_stirred && !claiming->took);
        tell(async, batch, batch->more, claiming->takes && again);
    }
}

static void rebased(struct ob_pg_async *async)
{
    struct ob_pg_claiming *claiming = &async->claiming;
    struct outbox_error err = claiming->rebase.err;
    ob_pg_async_heard(async, &err);
    if (err.code) {
        tell_failed(async, &err);
        return;
    }
    int64_t moved = ob_pg_int8(claiming->rebase.parts[0].res, 0, 0);
    if (moved >= 0)
        ob_log(async->common.log, OB_LOG_WARN, "log of another server: began a new one", OB_INT("queued", moved));
    bool log = claiming->take.state == OB_PG_DONE;
    ob_pg_request_reset(&claiming->take);
    ob_pg_request_reset(&claiming->page);
    ob_pg_request_reset(&claiming->queue);
    if (log)
        ask_log(async);
    else
        ask_queue(async);
}

bool ob_pg_async_claim_ready(const struct ob_pg_async *async)
{
    const struct ob_pg_claiming *claiming = &async->claiming;
    switch (claiming->step) {
    case OB_PG_CLAIM_TAKE: return claiming->take.state == OB_PG_DONE && claiming->page.state == OB_PG_DONE;
    case OB_PG_CLAIM_PAGE: return claiming->page.state == OB_PG_DONE;
    case OB_PG_CLAIM_QUEUE: return claiming->queue.state == OB_PG_DONE;
    case OB_PG_CLAIM_REBASE: return claiming->rebase.state == OB_PG_DONE;
    default: return false;
    }
}

void ob_pg_async_claim_go_on(struct ob_pg_async *async)
{
    switch (async->claiming.step) {
    case OB_PG_CLAIM_TAKE: took(async); break;
    case OB_PG_CLAIM_PAGE: paged(async); break;
    case OB_PG_CLAIM_QUEUE: claimed(async); break;
    case OB_PG_CLAIM_REBASE: rebased(async); break;
    default: break;
    }
}

void ob_pg_async_claim_fini(struct ob_pg_async *async)
{
    ob_pg_request_fini(&async->claiming.take);
    ob_pg_request_fini(&async->claiming.page);
    ob_pg_request_fini(&async->claiming.queue);
    ob_pg_request_fini(&async->claiming.rebase);
}
