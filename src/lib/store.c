/* store.c - the store handle of outbox.h: checks arguments, then calls the store.
 *
 * The code below trusts its arguments; here a NULL is the caller's mistake, and the error names the argument. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/versioned.h"
#include "core/batch.h"
#include "lib/open.h"

#include <string.h>

struct outbox_store {
    struct ob_store *store;
};

static ob_code missing(const char *name, struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_INVALID, "%s is NULL", name);
}

static ob_code not_initialised(const char *name, const char *macro, struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_INVALID, "%s has no size; initialise it with %s", name, macro);
}

enum outbox_code outbox_open(const char *url, const struct outbox_open *options, outbox_store **store,
                             struct outbox_error *err)
{
    struct outbox_open given = OUTBOX_OPEN_INIT;
    if (!store)
        return missing("store", err);
    *store = NULL;
    if (!url)
        return missing("url", err);
    if (options && !ob_take_versioned(&given, sizeof given, options))
        return not_initialised("options", "OUTBOX_OPEN_INIT", err);
    outbox_store *made = ob_calloc(1, sizeof *made);
    if (!made)
        return ob_error_nomem(err);
    struct ob_open open = {.schema = given.schema, .application = given.application};
    ob_code code = ob_store_open(url, &open, &made->store, err);
    if (code)
        ob_free(made);
    else
        *store = made;
    return code;
}

void outbox_close(outbox_store *store)
{
    if (!store)
        return;
    store->store->ops->close(store->store);
    ob_free(store);
}

enum outbox_code outbox_send(outbox_store *store, const struct outbox_message *msg, struct outbox_receipt *receipt,
                             struct outbox_error *err)
{
    struct outbox_message given = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt made = OUTBOX_RECEIPT_INIT;
    if (!store)
        return missing("store", err);
    if (!msg)
        return missing("msg", err);
    if (!ob_take_versioned(&given, sizeof given, msg))
        return not_initialised("msg", "OUTBOX_MESSAGE_INIT", err);
    if (receipt && !ob_size_is_sane(receipt->size))
        return not_initialised("receipt", "OUTBOX_RECEIPT_INIT", err);
    ob_code code = store->store->ops->enqueue(store->store, &given, &made, err);
    if (!code && receipt)
        ob_give_versioned(receipt, &made, sizeof made);
    return code;
}

/* The caller's array with elements of our size; a copy in the arena if the caller's elements have another size. */
static const void *elements(struct ob_arena *arena, const void *theirs, size_t their_size, size_t size, size_t count)
{
    if (!theirs || their_size == size)
        return theirs;
    void *ours = ob_arena_calloc(arena, count + 1, size);
    if (ours)
        ob_copy_elements(ours, size, theirs, their_size, count);
    return ours;
}

static ob_code take_lanes(struct ob_arena *arena, struct outbox_claim *want, struct outbox_error *err)
{
    if (!ob_size_is_sane(want->lane_size) || !ob_size_is_sane(want->rule_size))
        return not_initialised("want", "OUTBOX_CLAIM_INIT", err);
    const struct outbox_claim given = *want;
    want->only = elements(arena, given.only, given.lane_size, sizeof *want->only, given.only_count);
    want->skip = elements(arena, given.skip, given.lane_size, sizeof *want->skip, given.skip_count);
    want->rules = elements(arena, given.rules, given.rule_size, sizeof *want->rules, given.rule_count);
    if ((given.only && !want->only) || (given.skip && !want->skip) || (given.rules && !want->rules))
        return ob_error_nomem(err);
    return OUTBOX_OK;
}

static ob_code claim_some(struct ob_store *store, const struct outbox_claim *want, outbox_batch **batch,
                          struct outbox_error *err)
{
    for (;;) {
        ob_code code = store->ops->claim(store, want, batch, err);
        if (code || (*batch)->size > 0 || !(*batch)->more)
            return code;
        outbox_batch_free(
            *batch); /* it found only messages that died or may not be claimed; there are more behind them */
        *batch = NULL;
    }
}

enum outbox_code outbox_claim(outbox_store *store, const struct outbox_claim *want, outbox_batch **batch,
                              struct outbox_error *err)
{
    struct outbox_claim given = OUTBOX_CLAIM_INIT;
    if (!batch)
        return missing("batch", err);
    *batch = NULL;
    if (!store)
        return missing("store", err);
    if (!want)
        return missing("want", err);
    if (!ob_take_versioned(&given, sizeof given, want))
        return not_initialised("want", "OUTBOX_CLAIM_INIT", err);
    if (!given.worker)
        return missing("worker", err);
    struct ob_arena arena;
    ob_arena_init(&arena, 0);
    ob_code code = take_lanes(&arena, &given, err);
    if (!code)
        code = claim_some(store->store, &given, batch, err);
    ob_arena_fini(&arena);
    return code;
}

size_t outbox_batch_size(const outbox_batch *batch)
{
    return batch ? batch->size : 0;
}

const struct outbox_delivery *outbox_batch_at(const outbox_batch *batch, size_t i)
{
    return batch && i < batch->size ? &batch->items[i] : NULL;
}

void outbox_batch_free(outbox_batch *batch)
{
    if (batch)
        batch->free(batch);
}

/* Settles an array whose elements have another size than ours. */
static ob_code settle_others(struct ob_store *store, char *theirs, size_t stride, size_t count,
                             struct outbox_error *err)
{
    struct outbox_settle *items = ob_calloc(count, sizeof *items);
    if (!items)
        return ob_error_nomem(err);
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct outbox_settle)OUTBOX_SETTLE_INIT;
        ob_take_versioned(&items[i], sizeof *items, theirs + i * stride);
    }
    ob_code code = store->ops->settle(store, items, count, err);
    for (size_t i = 0; i < count && !code; i++)
        ob_give_versioned(theirs + i * stride, &items[i], sizeof *items);
    ob_free(items);
    return code;
}

enum outbox_code outbox_settle(outbox_store *store, struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    if (!store)
        return missing("store", err);
    if (!items && count)
        return missing("items", err);
    size_t stride = count ? items->size : sizeof *items;
    if (!ob_size_is_sane(stride))
        return not_initialised("items[0]", "OUTBOX_SETTLE_INIT", err);
    for (size_t i = 0, size; i < count; i++) {
        memcpy(&size, (const char *)items + i * stride, sizeof size);
        if (size != stride)
            return ob_error_set(err, OUTBOX_INVALID,
                                "items[%zu] has size %zu, items[0] has %zu; initialise each with "
                                "OUTBOX_SETTLE_INIT",
                                i, size, stride);
    }
    if (stride != sizeof *items)
        return settle_others(store->store, (char *)items, stride, count, err);
    return store->store->ops->settle(store->store, items, count, err);
}

/* ---- one message at a time ---- */

static ob_code verdict(const struct outbox_settle *item, struct outbox_error *err)
{
    char id[37];
    outbox_uuid_format(&item->id, id);
    switch (item->result) {
    case OUTBOX_SETTLED: return OUTBOX_OK;
    case OUTBOX_SETTLE_LOST:
        return ob_error_set(err, OUTBOX_LEASE_LOST,
                            "the lease of message %s is lost: another worker holds it, or it is already settled", id);
    default: return ob_error_set(err, OUTBOX_UNKNOWN_MESSAGE, "there is no message %s to settle", id);
    }
}

static struct outbox_settle claim_of(const struct outbox_delivery *msg, enum outbox_outcome outcome)
{
    struct outbox_settle item = OUTBOX_SETTLE_INIT;
    item.id = msg->id;
    item.token = msg->token;
    item.outcome = outcome;
    return item;
}

static ob_code settle_one(outbox_store *store, struct outbox_settle *item, struct outbox_error *err)
{
    ob_code code = store->store->ops->settle(store->store, item, 1, err);
    return code ? code : verdict(item, err);
}

enum outbox_code outbox_ack(outbox_store *store, const struct outbox_delivery *msg, const char *reference,
                            struct outbox_error *err)
{
    if (!store || !msg)
        return missing(store ? "msg" : "store", err);
    struct outbox_settle item = claim_of(msg, OUTBOX_DELIVERED);
    item.reference = reference;
    return settle_one(store, &item, err);
}

enum outbox_code outbox_nack(outbox_store *store, const struct outbox_delivery *msg, const char *code,
                             const char *error, struct outbox_error *err)
{
    if (!store || !msg)
        return missing(store ? "msg" : "store", err);
    struct outbox_settle item = claim_of(msg, OUTBOX_RETRY);
    item.code = code;
    item.error = error;
    return settle_one(store, &item, err);
}

enum outbox_code outbox_release(outbox_store *store, const struct outbox_delivery *msg, struct outbox_error *err)
{
    if (!store || !msg)
        return missing(store ? "msg" : "store", err);
    struct outbox_settle item = claim_of(msg, OUTBOX_RELEASED);
    item.delay_us = 0;
    return settle_one(store, &item, err);
}

enum outbox_code outbox_extend(outbox_store *store, const struct outbox_delivery *msg, int64_t lease_us,
                               struct outbox_error *err)
{
    if (!store || !msg)
        return missing(store ? "msg" : "store", err);
    struct outbox_settle item = claim_of(msg, OUTBOX_RETRY);
    ob_code code = store->store->ops->extend(store->store, &item, 1, lease_us, err);
    return code ? code : verdict(&item, err);
}

const char *outbox_version(void)
{
    return OUTBOX_VERSION;
}
