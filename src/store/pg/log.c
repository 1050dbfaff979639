/* log.c - see log.h. */
#include "store/pg/log.h"

#include "base/alloc.h"
#include "core/batch.h"
#include "store/pg/wire.h"

#include <assert.h>
#include <string.h>

enum { KEEP_US = 60000000 }; /* after the end of its lease, a window is remembered for late outcomes */

void ob_pg_log_init(struct ob_pg_log *log, uint64_t random)
{
    *log = (struct ob_pg_log){.nonce = (int64_t)(random >> 2)};
    ob_list_init(&log->windows);
    ob_list_init(&log->timed);
}

static struct ob_pg_window **bucket_of(struct ob_pg_log *log, uint32_t serial)
{
    return &log->buckets[serial % OB_PG_LOG_BUCKETS];
}

static void forget(struct ob_pg_log *log, struct ob_pg_window *window)
{
    struct ob_pg_window **link = bucket_of(log, window->serial);
    while (*link != window)
        link = &(*link)->next;
    *link = window->next;
    ob_list_remove(&window->node);
    ob_list_remove(&window->timed);
    ob_free(window);
}

void ob_pg_log_fini(struct ob_pg_log *log)
{
    OB_LIST_EACH_SAFE (it, &log->windows)
        forget(log, OB_CONTAINER(it, struct ob_pg_window, node));
}

int64_t ob_pg_log_nonce(struct ob_pg_log *log)
{
    return ++log->nonce;
}

/* ---- opening ---- */

/* Messages whose settle or eject is under way are still needed: its answer goes through them. */
static bool is_stale(const struct ob_pg_window *window, int64_t now_us)
{
    if (now_us - window->taken.asked_us < window->taken.lease_us + KEEP_US)
        return false;
    for (int i = 0; i < window->count; i++)
        if (window->held[i].state == OB_PG_SETTLING || window->held[i].state == OB_PG_EJECTING)
            return false;
    return true;
}

static void forget_stale(struct ob_pg_log *log, int64_t now_us)
{
    while (!ob_list_empty(&log->windows)) {
        struct ob_pg_window *oldest = OB_CONTAINER(log->windows.next, struct ob_pg_window, node);
        if (!is_stale(oldest, now_us))
            return;
        forget(log, oldest);
    }
}

int64_t ob_pg_log_token(const struct ob_pg_window *window, int index)
{
    return OB_PG_TOKEN_WINDOW | (int64_t)window->serial << 32 | (int64_t)index << 16 | 1;
}

static void hold(struct ob_pg_held *held, const struct outbox_delivery *msg)
{
    *held = (struct ob_pg_held){.id = msg->id, .stream = msg->stream};
    held->has_tenant = msg->tenant_id && outbox_uuid_parse(msg->tenant_id, &held->tenant);
}

struct ob_pg_window *ob_pg_log_open(struct ob_pg_log *log, const struct ob_pg_taken *taken, struct outbox_batch *batch,
                                    int64_t now_us)
{
    forget_stale(log, now_us);
    struct ob_pg_window *window = ob_alloc(sizeof *window + batch->size * sizeof window->held[0]);
    if (!window)
        return NULL;
    assert(batch->size > 0 && batch->size <= 0xffff);
    log->serial = (log->serial + 1) & OB_PG_SERIAL_MASK;
    *window = (struct ob_pg_window){.taken = *taken,
                                    .serial = log->serial,
                                    .missing = taken->size - (int)batch->size,
                                    .eject_us = INT64_MAX,
                                    .count = (int)batch->size,
                                    .left = (int)batch->size};
    for (size_t i = 0; i < batch->size; i++) {
        hold(&window->held[i], &batch->items[i]);
        batch->items[i].token = ob_pg_log_token(window, (int)i);
    }
    ob_list_push(&log->windows, &window->node);
    ob_list_init(&window->timed);
    if (taken->shard >= 0)
        ob_pg_log_eject_at(log, window, now_us + OB_PG_EJECT_US);
    struct ob_pg_window **bucket = bucket_of(log, window->serial);
    window->next = *bucket;
    *bucket = window;
    return window;
}

/* ---- finding ---- */

struct ob_pg_held *ob_pg_log_find(const struct ob_pg_log *log, int64_t token, const struct outbox_uuid *id,
                                  struct ob_pg_window **window)
{
    if (!ob_pg_token_in_window(token))
        return NULL;
    uint32_t serial = (uint32_t)(token >> 32) & OB_PG_SERIAL_MASK;
    int index = (int)(token >> 16) & 0xffff;
    struct ob_pg_window *it = log->buckets[serial % OB_PG_LOG_BUCKETS];
    while (it && it->serial != serial)
        it = it->next;
    if (!it || index >= it->count || it->held[index].state == OB_PG_GONE ||
        memcmp(&it->held[index].id, id, sizeof *id) != 0)
        return NULL;
    *window = it;
    return &it->held[index];
}

bool ob_pg_log_precedes(const struct ob_pg_window *window, const struct ob_pg_held *held)
{
    if (!held->stream)
        return false;
    for (const struct ob_pg_held *it = window->held; it < held; it++)
        if (it->stream == held->stream && (it->state == OB_PG_HELD || it->state == OB_PG_EJECTING))
            return true;
    return false;
}

/* ---- leaving ---- */

bool ob_pg_log_gone(struct ob_pg_log *log, struct ob_pg_window *window, struct ob_pg_held *held)
{
    assert(held->state != OB_PG_GONE);
    held->state = OB_PG_GONE;
    if (--window->left > 0)
        return false;
    forget(log, window);
    return true;
}

void ob_pg_log_lost(struct ob_pg_log *log, struct ob_pg_window *window)
{
    forget(log, window);
}

/* ---- time ---- */

void ob_pg_log_eject_at(struct ob_pg_log *log, struct ob_pg_window *window, int64_t at_us)
{
    ob_list_remove(&window->timed);
    ob_list_push(&log->timed, &window->timed);
    window->eject_us = at_us;
}

int64_t ob_pg_log_due_us(const struct ob_pg_log *log)
{
    int64_t due_us = INT64_MAX;
    OB_LIST_EACH (it, &log->timed) {
        const struct ob_pg_window *window = OB_CONTAINER(it, struct ob_pg_window, timed);
        due_us = window->eject_us < due_us ? window->eject_us : due_us;
    }
    return due_us;
}

bool ob_pg_log_keyed(const struct ob_pg_log *log)
{
    OB_LIST_EACH (it, &log->timed)
        if (OB_CONTAINER(it, struct ob_pg_window, timed)->taken.shard >= 0)
            return true;
    return false;
}
