/* work.c - producing and working, in the words of suite.h. Each helper is one call of the store and its assertion. */
#include "suite.h"

#include "core/batch.h"

void complete(struct outbox_message *msg)
{
    if (!msg->payload)
        msg->payload = DEFAULT_PAYLOAD;
    if (msg->payload_len == 0 && !msg->content_type)
        msg->payload_len = strlen(msg->payload);
}

struct outbox_receipt put_(struct fx *fx, struct outbox_message msg)
{
    struct outbox_receipt receipt = {.seq = -1};
    complete(&msg);
    check_(fx, fx->store->ops->enqueue(fx->store, &msg, &receipt, &fx->err), OUTBOX_OK, "enqueue");
    return receipt;
}

/* A refusal must come with a text for people, and leave every table as it was. */
static void expect_refusal(struct fx *fx, enum outbox_code code, enum outbox_code wanted, const char *before,
                           const char *what)
{
    check_(fx, code, wanted, what);
    if (fx->err.code != wanted)
        blame(fx, "%s: the error struct says %s", what, outbox_code_name(fx->err.code));
    if (!fx->err.text[0])
        blame(fx, "%s: refused without a word", what);
    expect_unchanged_(fx, before, what);
}

void refuse_(struct fx *fx, enum outbox_code wanted, struct outbox_message msg)
{
    const char *before = digest(fx);
    complete(&msg);
    memset(&fx->err, 0, sizeof(fx->err));
    expect_refusal(fx, fx->store->ops->enqueue(fx->store, &msg, NULL, &fx->err), wanted, before, "enqueue");
}

static void batch_release(void *batch)
{
    outbox_batch_free(batch);
}

outbox_batch *claim_(struct fx *fx, struct outbox_claim want)
{
    outbox_batch *batch = NULL;
    fx_refresh(fx);
    check_(fx, (fx->store->ops->claim)(fx->store, &want, &batch, &fx->err), OUTBOX_OK, "claim");
    return keep(fx, batch, batch_release);
}

/* The batch that a test sees when its messages came in several; the parts own them. */
static void joined_free(struct outbox_batch *batch)
{
    free(batch->items);
    free(batch);
}

static outbox_batch *join(struct fx *fx, const outbox_batch *a, const outbox_batch *b)
{
    outbox_batch *both = calloc(1, sizeof(*both));
    both->free = joined_free;
    both->size = a->size + b->size;
    both->items = malloc((both->size + 1) * sizeof(*both->items));
    for (size_t i = 0; i < both->size; i++)
        both->items[i] = i < a->size ? a->items[i] : b->items[i - a->size];
    return keep(fx, both, batch_release);
}

outbox_batch *claim_n_(struct fx *fx, size_t n, struct outbox_claim want)
{
    outbox_batch *batch = claim_(fx, want);
    for (int64_t end = now_us() + PATIENCE; batch->size < n && now_us() < end; tick()) {
        want.limit -= (int)batch->size;
        batch = join(fx, batch, claim_(fx, want));
    }
    if (batch->size != n)
        blame(fx, "claimed %zu messages, wanted %zu", batch->size, n);
    return batch;
}

void claim_none_(struct fx *fx, struct outbox_claim want)
{
    (void)claim_n_(another_(fx), 0, want);
}

const struct outbox_delivery *take_(struct fx *fx, struct outbox_claim want)
{
    return outbox_batch_at(claim_n_(fx, 1, want), 0);
}

void refuse_claim_(struct fx *fx, enum outbox_code wanted, struct outbox_claim want)
{
    const char *before = digest(fx);
    outbox_batch *batch = NULL;
    memset(&fx->err, 0, sizeof(fx->err));
    enum outbox_code code = (fx->store->ops->claim)(fx->store, &want, &batch, &fx->err);
    if (code == OUTBOX_OK)
        outbox_batch_free(batch);
    expect_refusal(fx, code, wanted, before, "claim");
}

bool settle_(struct fx *fx, struct outbox_settle item)
{
    check_(fx, (fx->store->ops->settle)(fx->store, &item, 1, &fx->err), OUTBOX_OK, "settle");
    if (item.result != OUTBOX_SETTLED)
        blame(fx, "settle: the result is %d", item.result);
    return item.dead;
}

void ack_all_(struct fx *fx, outbox_batch *batch)
{
    size_t n = outbox_batch_size(batch);
    struct outbox_settle *items = keep(fx, calloc(n + 1, sizeof(*items)), free);
    for (size_t i = 0; i < n; i++)
        items[i] = SETTLE(outbox_batch_at(batch, i), .outcome = OUTBOX_DELIVERED);
    check_(fx, (fx->store->ops->settle)(fx->store, items, n, &fx->err), OUTBOX_OK, "settle");
    for (size_t i = 0; i < n; i++)
        if (items[i].result != OUTBOX_SETTLED)
            blame(fx, "settle: the result of %zu is %d", i, items[i].result);
}

void settle_refused_(struct fx *fx, enum outbox_settled result, struct outbox_settle item)
{
    const char *before = digest(fx);
    item.result = OUTBOX_SETTLED;
    check_(fx, (fx->store->ops->settle)(fx->store, &item, 1, &fx->err), OUTBOX_OK, "settle");
    if (item.result != result)
        blame(fx, "settle: the result is %d, wanted %d", item.result, result);
    if (item.dead)
        blame(fx, "settle: a refused one says dead");
    expect_unchanged_(fx, before, "a refused settle");
}

struct outbox_uuid make_dead_(struct fx *fx, struct outbox_message msg)
{
    struct outbox_uuid id = put_(fx, msg).id;
    const char *topics[] = {msg.topic};
    const struct outbox_delivery *out = take_(fx, WANT(.limit = 1, .topics = topics, .topic_count = 1));
    if (!uuid_equal(out->id, id))
        blame(fx, "make_dead: another message was in front");
    if (!settle_(fx, SETTLE(out, .outcome = OUTBOX_FAILED, .code = "wrong", .error = "never")))
        blame(fx, "make_dead: it is not dead");
    return id;
}
