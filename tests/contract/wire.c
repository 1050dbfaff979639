/* wire.c - see wire.h. */
#include "wire.h"

#include "base/clock.h"
#include "lib/open.h"

#include <poll.h>

static void answered(struct wire *wire, enum kind kind, enum outbox_code code, const struct outbox_error *err)
{
    if (!wire->out[kind])
        blame(wire->fx, "an answer of kind %d that nobody asked for: %s", kind, err->text);
    wire->out[kind] = false;
    wire->answers[kind]++;
    wire->codes[kind] = code;
    assert_int_equal(code, err->code);
    snprintf(wire->texts[kind], sizeof wire->texts[kind], "%.255s", code ? err->text : "");
}

static void on_claimed(void *ctx, enum outbox_code code, const struct outbox_error *err, struct outbox_batch *batch)
{
    struct wire *wire = ctx;
    answered(wire, CLAIM, code, err);
    assert_true(code ? !batch : batch != NULL);
    outbox_batch_free(wire->batch);
    wire->batch = batch;
}

static void on_settled(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    answered(ctx, SETTLE_, code, err);
}

static void on_extended(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    answered(ctx, EXTEND, code, err);
}

static void on_woken(void *ctx)
{
    ((struct wire *)ctx)->wakes++;
}

struct ob_async_store_host wire_host(struct wire *wire)
{
    return (struct ob_async_store_host){wire, on_claimed, on_settled, on_extended, on_woken};
}

void cut(struct wire *wire)
{
    if (wire->async)
        wire->async->ops->close(wire->async);
    wire->async = NULL;
    outbox_batch_free(wire->batch);
    wire->batch = NULL;
}

void wire_free(void *ptr)
{
    struct wire *wire = ptr;
    cut(wire);
    free(wire);
}

struct wire *wire_new(struct fx *fx, const char *url, const char *schema, const char *worker)
{
    struct wire *wire = keep(fx, calloc(1, sizeof *wire), wire_free);
    wire->fx = fx;
    struct ob_async_store_options options = {
        .url = url,
        .schema = schema,
        .application = "line",
        .worker = worker,
        .fallback_us = 60 * SECOND,
        .host = wire_host(wire),
    };
    if (ob_async_store_open(&options, &wire->async, &fx->err))
        blame(fx, "cannot open the line: %s", fx->err.text);
    return wire;
}

struct wire *wire_to(struct fx *fx)
{
    char url[PLACE_MAX];
    fixture.url(fx->place, url);
    return wire_new(fx, url, NULL, NULL);
}
/* One turn of a host's loop, max_us at most. */
void turn(struct wire *wire, int64_t max_us)
{
    int64_t left = wire->async->ops->due_us(wire->async) - ob_clock_boot_us();
    left = left < 0 ? 0 : left < max_us ? left : max_us;
    struct pollfd fd = {.fd = wire->async->ops->fd(wire->async), .events = POLLIN};
    struct timespec time = {left / SECOND, left % SECOND * 1000};
    ppoll(&fd, 1, &time, NULL);
    wire->async->ops->step(wire->async);
}

static bool quiet(const struct wire *wire)
{
    return !wire->out[CLAIM] && !wire->out[SETTLE_] && !wire->out[EXTEND];
}

/* Until all that was asked is answered. */
void hear_out(struct wire *wire)
{
    int64_t end = ob_clock_boot_us() + PATIENCE_US;
    while (!quiet(wire)) {
        if (ob_clock_boot_us() > end)
            blame(wire->fx, "no answer: claim %d settle %d extend %d", wire->out[CLAIM], wire->out[SETTLE_],
                  wire->out[EXTEND]);
        turn(wire, SECOND);
    }
}

void ask_claim_(struct wire *wire, struct outbox_claim want, int64_t timeout_us)
{
    wire->out[CLAIM] = true;
    (wire->async->ops->claim)(wire->async, &want, timeout_us);
}
void ask_settle(struct wire *wire, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    wire->out[SETTLE_] = true;
    (wire->async->ops->settle)(wire->async, items, count, timeout_us);
}

void ask_extend(struct wire *wire, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    wire->out[EXTEND] = true;
    wire->async->ops->extend(wire->async, items, count, 60 * SECOND, timeout_us);
}

void expect_code_(struct fx *fx, struct wire *wire, enum kind kind, enum outbox_code code)
{
    if (wire->codes[kind] != code)
        blame(fx, "the answer is %s (%s), wanted %s", outbox_code_name(wire->codes[kind]), wire->texts[kind],
              outbox_code_name(code));
}
/* Claims n by the async store, and returns what a settle of them is made of; kept. */
struct outbox_settle *async_take_(struct fx *fx, struct wire *wire, size_t n)
{
    struct outbox_settle *items = keep(fx, calloc(n + 1, sizeof *items), free);
    ask_claim_(
        wire,
        (struct outbox_claim){
            .size = sizeof(struct outbox_claim), .worker = "line", .limit = (int)n, .lease_us = 30 * SECOND, .run = 1},
        TIMEOUT_US);
    hear_out(wire);
    expect_code_(fx, wire, CLAIM, OUTBOX_OK);
    if (outbox_batch_size(wire->batch) != n)
        blame(fx, "claimed %zu messages, wanted %zu", outbox_batch_size(wire->batch), n);
    for (size_t i = 0; i < n; i++)
        items[i] = SETTLE(outbox_batch_at(wire->batch, i), .outcome = OUTBOX_DELIVERED);
    return items;
}
