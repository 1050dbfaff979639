/* store.c - the store handle of outbox.h: arguments are checked here, the work is the store's.
 *
 * Below this file arguments are trusted; here a NULL is the caller's mistake and gets a name. */
#include "base/alloc.h"
#include "base/error.h"
#include "core/batch.h"
#include "lib/open.h"
#include "lib/versioned.h"

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
    struct outbox_receipt unused;
    if (!store)
        return missing("store", err);
    if (!msg)
        return missing("msg", err);
    if (!ob_take_versioned(&given, sizeof given, msg))
        return not_initialised("msg", "OUTBOX_MESSAGE_INIT", err);
    return store->store->ops->enqueue(store->store, &given, receipt ? receipt : &unused, err);
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
    for (;;) {
        enum outbox_code code = store->store->ops->claim(store->store, &given, batch, err);
        if (code || (*batch)->size > 0 || !(*batch)->more)
            return code;
        outbox_batch_free(*batch); /* all that it met was buried, or not to be taken: others stand behind */
        *batch = NULL;
    }
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

enum outbox_code outbox_settle(outbox_store *store, struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    if (!store)
        return missing("store", err);
    if (!items && count)
        return missing("items", err);
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
                            "the lease of message %s is not held any more: another worker has it, or it is settled",
                            id);
    default: return ob_error_set(err, OUTBOX_UNKNOWN_MESSAGE, "there is no message %s to settle", id);
    }
}

static struct outbox_settle claim_of(const struct outbox_delivery *msg, enum outbox_outcome outcome)
{
    return (struct outbox_settle){
        .id = msg->id, .token = msg->token, .outcome = outcome, .delay_us = -1, .latency_us = -1};
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
