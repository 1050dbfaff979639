/* bulk.c - see bulk.h. */
#include "lib/bulk.h"

#include "base/clock.h"
#include "base/error.h"
#include "core/filter.h"
#include "core/lever.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 1000, NAP_US = 100000 };

static bool stopped(struct ob_bulk *bulk)
{
    if (!bulk->interrupted && bulk->stop && bulk->stop(bulk->ctx))
        bulk->interrupted = true;
    return bulk->interrupted;
}

static void tell(const struct ob_bulk *bulk)
{
    if (bulk->progress)
        bulk->progress(bulk->ctx, bulk);
}

static ob_code enter(struct ob_bulk *bulk, enum ob_rights rights, struct outbox_error *err)
{
    return bulk->enters ? bulk->store->ops->enter(bulk->store, rights, bulk->tenant_id, err) : OUTBOX_OK;
}

static ob_code leave(struct ob_bulk *bulk, ob_code code, struct outbox_error *err)
{
    ob_code left = bulk->enters ? bulk->store->ops->leave(bulk->store, !code, code ? NULL : err) : OUTBOX_OK;
    return code ? code : left;
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

static ob_code check_status(struct ob_bulk *bulk, struct outbox_error *err)
{
    enum ob_lever lever = bulk->operation.lever;
    struct ob_filter *filter = &bulk->filter;
    if (!filter->status_plus_1 && !filter->ids)
        filter->status_plus_1 = (int)ob_lever_status(lever) + 1;
    if (filter->status_plus_1 && !ob_lever_takes(lever, (enum ob_status)(filter->status_plus_1 - 1))) {
        char takes[64] = "";
        for (int i = 0; i < OB_STATUS_COUNT; i++)
            if (ob_lever_takes(lever, (enum ob_status)i))
                snprintf(takes + strlen(takes), sizeof takes - strlen(takes), "%sstatus:%s", *takes ? " or " : "",
                         ob_status_name((enum ob_status)i));
        return ob_error_set(err, OUTBOX_INVALID, "%s does nothing to messages with status:%s; it takes %s",
                            ob_lever_name(lever), ob_status_name((enum ob_status)(filter->status_plus_1 - 1)), takes);
    }
    bulk->operation.status_plus_1 = filter->status_plus_1;
    return OUTBOX_OK;
}

ob_code ob_bulk_check(struct ob_bulk *bulk, struct outbox_error *err)
{
    struct ob_operation one = bulk->operation;
    struct outbox_uuid id = {0};
    if (!ob_filter_selects(&bulk->filter))
        return ob_error_set(err, OUTBOX_INVALID,
                            "no messages selected: give ids, or a filter such as topic:orders.* or age:>1h");
    if (bulk->rate < 0 || (bulk->rate && bulk->period_us <= 0) || bulk->limit < 0)
        return ob_error_set(err, OUTBOX_INVALID, "rate and limit are not negative");
    one.ids = &id;
    one.id_count = 1;
    ob_code code = ob_operation_check(&one, err);
    return code ? code : check_status(bulk, err);
}

static bool found_row(void *ctx, const struct ob_message_row *row)
{
    struct ob_bulk *bulk = ctx;
    ob_buf_put(&bulk->ids, &row->id, sizeof row->id);
    bulk->last = row->id;
    bulk->total++;
    bulk->page++;
    if (bulk->sample && !bulk->sample(bulk->sample_ctx, row))
        bulk->sample = NULL;
    return true;
}

static int by_age(const void *a, const void *b)
{
    return memcmp(b, a, sizeof(struct outbox_uuid));
}

/* Ids that were given are taken as they are: the act tells what is wrong with one. */
static ob_code take_ids(struct ob_bulk *bulk, int64_t most, struct outbox_error *err)
{
    size_t count = bulk->filter.id_count;
    bulk->more = (int64_t)count > most;
    ob_buf_put(&bulk->ids, bulk->filter.ids, (bulk->more ? (size_t)most : count) * sizeof *bulk->filter.ids);
    if (!ob_buf_ok(&bulk->ids))
        return ob_error_nomem(err);
    bulk->total = bulk->more ? most : (int64_t)count;
    qsort(bulk->ids.data, (size_t)bulk->total, sizeof(struct outbox_uuid), by_age);
    return OUTBOX_OK;
}

static bool only_ids(const struct ob_filter *filter)
{
    struct ob_filter rest = *filter;
    rest.ids = NULL;
    return filter->ids && !ob_filter_selects(&rest);
}

ob_code ob_bulk_find(struct ob_bulk *bulk, int64_t most, ob_message_fn *sample, void *ctx, struct outbox_error *err)
{
    struct ob_filter page = bulk->filter;
    struct ob_listed listed;
    struct outbox_uuid after;
    bool more = true;
    if (only_ids(&page) && !sample)
        return take_ids(bulk, most, err);
    bulk->sample = sample;
    bulk->sample_ctx = ctx;
    page.listed = &listed;
    page.with_payload = false;
    while (more && bulk->total < most && !stopped(bulk)) {
        bulk->page = 0;
        listed = (struct ob_listed){0};
        page.limit = most - bulk->total < PAGE ? (int)(most - bulk->total) : PAGE;
        ob_code code = enter(bulk, OB_RIGHTS_READ, err);
        if (!code)
            code = leave(bulk, bulk->store->ops->list(bulk->store, &page, found_row, bulk, err), err);
        if (code)
            return code;
        more = listed.capped || bulk->page == page.limit;
        bulk->searched = bulk->searched || listed.capped;
        after = listed.capped ? listed.upto : bulk->last;
        page.after = &after;
        tell(bulk);
    }
    bulk->more = more;
    return ob_buf_ok(&bulk->ids) ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- the act ----------------------------------------------------------------------------------------------------- */

static bool on_row(void *ctx, const struct ob_operated_row *row)
{
    struct ob_bulk *bulk = ctx;
    struct ob_bulk_refusal *refusal = bulk->refusals;
    if (row->done) {
        bulk->done++;
        return true;
    }
    bulk->refused++;
    for (size_t i = 0; i + 1 < OB_BULK_REASONS && refusal->count && strcmp(refusal->result, row->result) != 0; i++)
        refusal++;
    if (!refusal->count++) {
        snprintf(refusal->result, sizeof refusal->result, "%s", row->result);
        snprintf(refusal->detail, sizeof refusal->detail, "%s", row->detail ? row->detail : "");
        refusal->first = row->id;
    }
    return true;
}

/* Waits until as many as were tried may have been, at the rate; a stop ends it early. */
static void keep_rate(struct ob_bulk *bulk, int64_t began_us)
{
    while (bulk->rate && !stopped(bulk)) {
        double due = (double)bulk->tried * (double)bulk->period_us / (double)bulk->rate;
        int64_t wait_us = began_us + (int64_t)due - ob_clock_mono_us();
        if (wait_us <= 0)
            return;
        struct timespec nap = {0, (long)(wait_us < NAP_US ? wait_us : NAP_US) * 1000};
        nanosleep(&nap, NULL);
    }
}

/* With a rate, as many as may go in a short while. */
static int64_t step_of(const struct ob_bulk *bulk)
{
    if (!bulk->rate)
        return OB_BULK_STEP;
    double some = (double)bulk->rate * NAP_US / (double)bulk->period_us;
    return some < 1 ? 1 : some > OB_BULK_STEP ? OB_BULK_STEP : (int64_t)some;
}

static int64_t wanted(const struct ob_bulk *bulk)
{
    return bulk->limit && bulk->limit < bulk->total ? bulk->limit : bulk->total;
}

ob_code ob_bulk_run(struct ob_bulk *bulk, struct outbox_error *err)
{
    const struct outbox_uuid *ids = (const struct outbox_uuid *)(const void *)bulk->ids.data;
    int64_t began_us = ob_clock_mono_us(), step = step_of(bulk);
    while (bulk->tried < wanted(bulk) && !stopped(bulk)) {
        int64_t count = wanted(bulk) - bulk->tried < step ? wanted(bulk) - bulk->tried : step;
        struct ob_operation some = bulk->operation;
        some.ids = ids + bulk->total - bulk->tried - count;
        some.id_count = (size_t)count;
        ob_code code = enter(bulk, OB_RIGHTS_ACT, err);
        if (!code)
            code = leave(bulk, bulk->store->ops->operate(bulk->store, &some, on_row, bulk, err), err);
        if (code)
            return code;
        bulk->tried += count;
        tell(bulk);
        if (bulk->tried < wanted(bulk))
            keep_rate(bulk, began_us);
    }
    return OUTBOX_OK;
}

int64_t ob_bulk_left(const struct ob_bulk *bulk)
{
    return bulk->total - bulk->tried;
}

void ob_bulk_fini(struct ob_bulk *bulk)
{
    ob_buf_fini(&bulk->ids);
}
