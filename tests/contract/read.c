/* read.c - the views of a store as text, so that a test can name a whole outcome in one line. */
#include "suite.h"

static const char *const status_names[OB_STATUS_COUNT] = {
    [OB_PENDING] = "pending", [OB_PROCESSING] = "processing", [OB_STATUS_DELIVERED] = "delivered",
    [OB_DEAD] = "dead",       [OB_DISCARDED] = "discarded",
};

static const char *const outcome_names[] = {
    [0] = "open",
    [OUTBOX_DELIVERED] = "delivered",
    [OUTBOX_RETRY] = "retry",
    [OUTBOX_FAILED] = "failed",
    [OUTBOX_LOST] = "lost",
    [OUTBOX_LIMITED] = "limited",
    [OUTBOX_BLOCKED] = "blocked",
    [OUTBOX_UNKNOWN] = "unknown",
    [OUTBOX_RELEASED] = "released",
    [OUTBOX_INTERRUPTED] = "interrupted",
};

struct text {
    char at[TEXT_MAX];
    size_t length;
};

static void __attribute__((format(printf, 2, 3))) text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text->length += (size_t)vsnprintf(text->at + text->length, sizeof(text->at) - text->length, format, args);
    va_end(args);
    assert_true(text->length < sizeof(text->at));
}

struct found {
    struct fx *fx;
    struct ob_message_row *row;
};

static bool message_copy(void *ctx, const struct ob_message_row *row)
{
    struct found *found = ctx;
    struct fx *fx = found->fx;
    struct ob_message_row *copy = keep(fx, malloc(sizeof(*copy)), free);
    *copy = *row;
    const char **texts[] = {&copy->name_space, &copy->topic,       &copy->tenant_id,        &copy->key,
                            &copy->dedupe_key, &copy->subject,     &copy->recipient,        &copy->correlation_id,
                            &copy->headers,    &copy->locked_by,   &copy->content_type,     &copy->last_code,
                            &copy->last_error, &copy->dead_reason, &copy->max_attempts_from};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        *texts[i] = keep_text(fx, *texts[i]);
    if (row->payload) {
        copy->payload = keep(fx, malloc(row->payload_len + 1), free);
        memcpy((void *)copy->payload, row->payload, row->payload_len);
        ((char *)copy->payload)[row->payload_len] = '\0';
    }
    found->row = copy;
    return true;
}

static const struct ob_message_row *find(struct fx *fx, struct outbox_uuid id)
{
    struct found found = {.fx = fx};
    struct ob_filter filter = {.ids = &id, .id_count = 1, .with_payload = true};
    check_(fx, fx->store->ops->list(fx->store, &filter, message_copy, &found, &fx->err), OUTBOX_OK, "list");
    return found.row;
}

const struct ob_message_row *look_(struct fx *fx, struct outbox_uuid id)
{
    const struct ob_message_row *row = find(fx, id);
    if (!row)
        blame(fx, "there is no message %s", uuid_text(fx, id));
    return row;
}

void expect_state_(struct fx *fx, struct outbox_uuid id, const char *wanted)
{
    struct text text = {0};
    const struct ob_message_row *row = find(fx, id);
    if (!row)
        text_add(&text, "none");
    else
        text_add(&text, "%s attempts %d spent %d%s%s", status_names[row->status], row->attempts, row->spent,
                 row->locked_by ? " by " : "", row->locked_by ? row->locked_by : "");
    if (strcmp(text.at, wanted) != 0)
        blame(fx, "state is \"%s\", wanted \"%s\"", text.at, wanted);
    /* A lease is of a message that is out, and nobody else's. */
    if (row && (row->locked_until_us != 0) != (row->status == OB_PROCESSING))
        blame(fx, "%s with locked_until %lld", text.at, (long long)row->locked_until_us);
}

static bool attempt_add(void *ctx, const struct ob_attempt_row *row)
{
    struct text *text = ctx;
    /* The worker that vanished gave no code; a store may give one for it. */
    const char *code = row->outcome == OUTBOX_LOST ? NULL : row->code;
    text_add(text, "%s%d %s %s%s%s", text->length ? "; " : "", row->attempt, outcome_names[row->outcome],
             row->worker ? row->worker : "-", code ? " " : "", code ? code : "");
    return true;
}

void expect_attempts_(struct fx *fx, struct outbox_uuid id, const char *wanted)
{
    struct text text = {0};
    check_(fx, fx->store->ops->attempts(fx->store, &id, attempt_add, &text, &fx->err), OUTBOX_OK, "attempts");
    if (strcmp(text.at, wanted) != 0)
        blame(fx, "attempts are \"%s\", wanted \"%s\"", text.at, wanted);
}

struct wanted_attempt {
    struct fx *fx;
    int number;
    struct ob_attempt_row *row;
};

static bool attempt_copy(void *ctx, const struct ob_attempt_row *row)
{
    struct wanted_attempt *want = ctx;
    if (row->attempt != want->number)
        return true;
    struct ob_attempt_row *copy = keep(want->fx, malloc(sizeof(*copy)), free);
    *copy = *row;
    copy->worker = keep_text(want->fx, row->worker);
    copy->code = keep_text(want->fx, row->code);
    copy->error = keep_text(want->fx, row->error);
    copy->reference = keep_text(want->fx, row->reference);
    want->row = copy;
    return false;
}

const struct ob_attempt_row *attempt_(struct fx *fx, struct outbox_uuid id, int number)
{
    struct wanted_attempt want = {.fx = fx, .number = number};
    check_(fx, fx->store->ops->attempts(fx->store, &id, attempt_copy, &want, &fx->err), OUTBOX_OK, "attempts");
    if (!want.row)
        blame(fx, "there is no attempt %d", number);
    return want.row;
}

static bool act_add(void *ctx, const struct ob_act_row *row)
{
    struct text *text = ctx;
    text_add(text, "%s%s %s %s", text->length ? "; " : "", row->action, row->actor ? row->actor : "-",
             row->reason ? row->reason : "-");
    return true;
}

void expect_acts_(struct fx *fx, const struct outbox_uuid *id, const char *wanted)
{
    struct text text = {0};
    check_(fx, fx->store->ops->acts(fx->store, id, act_add, &text, &fx->err), OUTBOX_OK, "acts");
    if (strcmp(text.at, wanted) != 0)
        blame(fx, "acts are \"%s\", wanted \"%s\"", text.at, wanted);
}

static bool row_count(void *ctx, const struct ob_message_row *row)
{
    (void)row;
    ++*(size_t *)ctx;
    return true;
}

size_t count_(struct fx *fx, struct ob_filter filter)
{
    size_t n = 0;
    check_(fx, fx->store->ops->list(fx->store, &filter, row_count, &n, &fx->err), OUTBOX_OK, "list");
    return n;
}

struct wanted_status {
    const char *name_space, *topic;
    struct ob_status_row sum;
};

static bool status_add(void *ctx, const struct ob_status_row *row)
{
    struct wanted_status *want = ctx;
    if ((want->name_space && strcmp(want->name_space, row->name_space) != 0) ||
        (want->topic && strcmp(want->topic, row->topic) != 0))
        return true;
    want->sum.pending += row->pending;
    want->sum.due += row->due;
    want->sum.delayed += row->delayed;
    want->sum.processing += row->processing;
    want->sum.stuck += row->stuck;
    want->sum.parked += row->parked;
    want->sum.dead += row->dead;
    want->sum.paused |= row->paused;
    if (row->oldest_due_s > want->sum.oldest_due_s)
        want->sum.oldest_due_s = row->oldest_due_s;
    return true;
}

struct ob_status_row status_of_(struct fx *fx, const char *name_space, const char *topic)
{
    struct wanted_status want = {.name_space = name_space, .topic = topic};
    check_(fx, fx->store->ops->status(fx->store, status_add, &want, &fx->err), OUTBOX_OK, "status");
    return want.sum;
}
