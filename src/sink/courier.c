/* courier.c - the loop's side of a courier; see courier.h. The thread is in courier_thread.c.
 *
 * Invariants: every parcel is in `live` until it is answered or was cancelled and came back. One that is handed belongs to
 * the thread until it is in `back`. After close nobody calls the host: the thread wakes it only under the mutex and not
 * once `stop` is set. */
#include "sink/courier_int.h"
#include "sink/shortage.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { JOIN_SECONDS = 1 };

void ob_ruling_set(struct ob_ruling *ruling, enum outbox_sink_outcome outcome, const char *prefix, const char *name,
                   const char *format, ...)
{
    va_list args;
    memset(ruling, 0, sizeof *ruling);
    ruling->outcome = outcome;
    ruling->scope = OUTBOX_SCOPE_DESTINATION;
    ruling->not_before_us = -1;
    snprintf(ruling->code, sizeof ruling->code, "%s_%s", prefix, name);
    va_start(args, format);
    vsnprintf(ruling->text, sizeof ruling->text, format, args);
    va_end(args);
}

void ob_ruling_unreachable(struct ob_ruling *ruling, const char *prefix, const char *place, const char *why)
{
    ob_ruling_set(ruling, OUTBOX_SINK_RETRY, prefix, "connect", "%s: %s", place, why);
    ruling->unreachable = true;
}

void ob_ruling_silent(const struct ob_courier *courier, struct ob_ruling *ruling, const char *place)
{
    int64_t ms = courier->connect_timeout_us / 1000;
    bool whole = ms % 1000 == 0;
    ob_ruling_set(ruling, OUTBOX_SINK_RETRY, courier->driver->prefix, "connect", "%s did not answer within %lld %s",
                  place, (long long)(whole ? ms / 1000 : ms), whole ? "s" : "ms");
    ruling->unreachable = true;
}

void ob_ruling_shortage(struct ob_ruling *ruling)
{
    ob_ruling_set(ruling, OUTBOX_SINK_NOT_SENT, "out", "of_memory", "out of memory");
    ruling->not_before_us = OB_SHORTAGE_US;
}

/* ---- parcels ---- */

static struct ob_parcel *parcel_new(struct ob_courier *courier, uint64_t handle)
{
    struct ob_parcel *parcel = ob_calloc(1, sizeof *parcel);
    if (!parcel)
        return NULL;
    parcel->handle = handle;
    ob_list_init(&parcel->node);
    ob_headers_init(&parcel->headers);
    atomic_init(&parcel->cancelled, false);
    ob_list_push(&courier->live, &parcel->live);
    return parcel;
}

void ob_parcel_free(struct ob_parcel *parcel)
{
    if (!parcel)
        return;
    ob_buf_fini(&parcel->address);
    ob_buf_fini(&parcel->body);
    ob_headers_fini(&parcel->headers);
    ob_free(parcel);
}

static void enter(struct ob_courier *courier)
{
    courier->depth++;
}

static void answer(struct ob_courier *courier, uint64_t handle, const struct outbox_verdict *verdict)
{
    if (!courier->closing)
        courier->host->done(courier->host->ctx, handle, verdict);
}

static void answer_ruling(struct ob_courier *courier, uint64_t handle, const struct ob_ruling *ruling)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = ruling->outcome;
    verdict.scope = ruling->scope;
    verdict.unreachable = ruling->unreachable;
    verdict.local = ruling->local;
    verdict.not_before_us = ruling->not_before_us;
    verdict.code = ruling->code[0] ? ruling->code : NULL;
    verdict.text = ruling->text[0] ? ruling->text : NULL;
    verdict.reference = ruling->reference[0] ? ruling->reference : NULL;
    answer(courier, handle, &verdict);
}

static void answer_unsent(struct ob_courier *courier, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    answer(courier, handle, &verdict);
}

static void answer_shortage(struct ob_courier *courier, uint64_t handle)
{
    struct ob_ruling ruling;
    ob_ruling_shortage(&ruling);
    answer_ruling(courier, handle, &ruling);
}

/* Those behind it were never handed. They are taken out of the chain first: the host may cancel from within an answer. */
static void drop_followers(struct ob_courier *courier, struct ob_parcel *parcel)
{
    struct ob_list lost, *node;
    struct ob_parcel *next;
    ob_list_init(&lost);
    for (struct ob_parcel *at = parcel->behind; at; at = next) {
        next = at->behind;
        at->ahead = at->behind = NULL;
        ob_list_push(&lost, &at->node);
    }
    parcel->behind = NULL;
    while ((node = ob_list_shift(&lost))) {
        struct ob_parcel *at = OB_CONTAINER(node, struct ob_parcel, node);
        uint64_t handle = at->handle;
        ob_list_remove(&at->live);
        ob_parcel_free(at);
        answer_unsent(courier, handle);
    }
}

/* ---- a message becomes a parcel ---- */

static bool fill_address(struct ob_courier *courier, struct ob_parcel *parcel)
{
    const struct outbox_delivery *msg = parcel->msg;
    struct outbox_error err = {0};
    json_t *payload = courier->reads_payload && ob_render_is_json(msg)
                          ? json_loadb(msg->payload, msg->payload_len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                          : NULL;
    enum outbox_code code = ob_template_render(courier->address, msg, payload, &parcel->address, &err);
    json_decref(payload);
    if (!code && ob_buf_ok(&parcel->address))
        return true;
    if (code == OUTBOX_NOMEM || !ob_buf_ok(&parcel->address))
        ob_ruling_shortage(&parcel->ruling);
    else
        ob_ruling_set(&parcel->ruling, OUTBOX_SINK_TERMINAL, courier->driver->prefix, "address", "%s: %s",
                      courier->driver->address, err.text);
    return false;
}

static bool fill_body(struct ob_courier *courier, struct ob_parcel *parcel)
{
    const struct outbox_delivery *msg = parcel->msg;
    const void *data;
    size_t len;
    bool made = ob_render_body(&courier->render, msg, &parcel->body, &data, &len);
    if (made && data != parcel->body.data && len) {
        ob_buf_reset(&parcel->body);
        ob_buf_put(&parcel->body, data, len);
    }
    if (made && ob_buf_ok(&parcel->body))
        return true;
    ob_ruling_shortage(&parcel->ruling);
    return false;
}

static bool fill(struct ob_courier *courier, struct ob_parcel *parcel)
{
    const struct outbox_delivery *msg = parcel->msg;
    struct outbox_verdict verdict;
    const char *type = ob_render_content_type(&courier->render, msg);
    outbox_uuid_format(&msg->id, parcel->id);
    snprintf(parcel->content_type, sizeof parcel->content_type, "%s", type ? type : "");
    snprintf(parcel->correlation_id, sizeof parcel->correlation_id, "%s",
             msg->correlation_id ? msg->correlation_id : "");
    parcel->seq = msg->seq;
    parcel->attempt = msg->attempt;
    parcel->keyed = msg->key != NULL;
    parcel->created_at_us = msg->created_at_us;
    parcel->expires_at_us = msg->expires_at_us;
    if (!ob_header_value_ok(parcel->content_type, strlen(parcel->content_type)))
        parcel->content_type[0] = '\0';
    ob_render_headers(&courier->render, courier->driver->wire, msg, &parcel->headers);
    if (parcel->headers.code) {
        ob_headers_verdict(&parcel->headers, &verdict);
        ob_ruling_set(&parcel->ruling, verdict.outcome, "", "", "%s", verdict.text ? verdict.text : "");
        snprintf(parcel->ruling.code, sizeof parcel->ruling.code, "%s", verdict.code ? verdict.code : "");
        parcel->ruling.not_before_us = verdict.not_before_us;
        return false;
    }
    return fill_address(courier, parcel) && fill_body(courier, parcel) &&
           (!courier->driver->check || courier->driver->check(courier->self, parcel, &parcel->ruling));
}

static void hand(struct ob_courier *courier, struct ob_parcel *parcel)
{
    parcel->handed = courier->handed = true;
    pthread_mutex_lock(&courier->mutex);
    ob_list_push(&courier->queue, &parcel->node);
    pthread_mutex_unlock(&courier->mutex);
}

/* Ends a parcel that is not with the thread. */
static void finish(struct ob_courier *courier, struct ob_parcel *parcel)
{
    struct ob_ruling ruling = parcel->ruling;
    uint64_t handle = parcel->handle;
    ob_list_remove(&parcel->live);
    answer_ruling(courier, handle, &ruling);
    drop_followers(courier, parcel);
    ob_parcel_free(parcel);
}

/* Hands it over, and when it cannot be sent at all ends it. */
static void begin(struct ob_courier *courier, struct ob_parcel *parcel)
{
    if (fill(courier, parcel)) {
        hand(courier, parcel);
    } else {
        parcel->ruling.local = true;
        finish(courier, parcel);
    }
}

/* ---- what came back ---- */

static void came_back(struct ob_courier *courier, struct ob_parcel *parcel)
{
    struct ob_parcel *next;
    parcel->handed = false;
    if (atomic_load(&parcel->cancelled)) {
        ob_list_remove(&parcel->live);
        ob_parcel_free(parcel);
        return;
    }
    if (parcel->ruling.outcome == OUTBOX_SINK_ACCEPTED && (next = parcel->behind)) {
        parcel->behind = NULL;
        next->ahead = NULL;
        begin(courier, next);
    }
    finish(courier, parcel);
}

/* ---- the end ---- */

void ob_courier_free(struct ob_courier *courier)
{
    if (!courier)
        return;
    if (courier->self) {
        courier->driver->disconnect(courier->self);
        if (courier->driver->fini)
            courier->driver->fini(courier->self);
        ob_free(courier->self);
    }
    OB_LIST_EACH_SAFE (it, &courier->live)
        ob_parcel_free(OB_CONTAINER(it, struct ob_parcel, live));
    ob_template_free(courier->address);
    ob_arena_fini(&courier->arena);
    if (courier->event_fd >= 0)
        close(courier->event_fd);
    pthread_mutex_destroy(&courier->mutex);
    ob_free(courier);
}

/* The thread ends at once unless a library holds it: then it is left alone and frees all itself. */
static void end(struct ob_courier *courier)
{
    struct timespec until;
    pthread_mutex_lock(&courier->mutex);
    courier->stop = true;
    pthread_mutex_unlock(&courier->mutex);
    if (courier->driver->interrupt)
        courier->driver->interrupt(courier->self);
    ob_courier_kick(courier);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_SECONDS;
    if (pthread_timedjoin_np(courier->thread, NULL, &until) == 0) {
        ob_courier_free(courier);
        return;
    }
    pthread_mutex_lock(&courier->mutex);
    bool finished = courier->finished;
    courier->abandoned = true;
    pthread_t thread = courier->thread;
    pthread_mutex_unlock(&courier->mutex);
    if (finished) {
        pthread_join(thread, NULL);
        ob_courier_free(courier);
    } else {
        pthread_detach(thread);
    }
}

static void leave(struct ob_courier *courier)
{
    if (--courier->depth > 0)
        return;
    if (courier->handed)
        ob_courier_kick(courier);
    courier->handed = false;
    if (courier->closing)
        end(courier);
}

void ob_courier_step(outbox_sink *sink)
{
    struct ob_courier *courier = (struct ob_courier *)(void *)sink;
    struct ob_list *node;
    enter(courier);
    for (;;) {
        pthread_mutex_lock(&courier->mutex);
        node = ob_list_shift(&courier->back);
        pthread_mutex_unlock(&courier->mutex);
        if (!node || courier->closing)
            break;
        came_back(courier, OB_CONTAINER(node, struct ob_parcel, node));
    }
    leave(courier);
}

/* ---- what the host says ---- */

void ob_courier_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    struct ob_courier *courier = (struct ob_courier *)(void *)sink;
    struct ob_parcel *last = NULL, *first = NULL;
    struct ob_list fresh;
    bool lost = false;
    ob_list_init(&fresh);
    enter(courier);
    for (size_t i = 0; i < count; i++) {
        struct ob_parcel *parcel = items[i].follows && lost ? NULL : parcel_new(courier, items[i].handle);
        lost = !parcel;
        if (lost) {
            answer_shortage(courier, items[i].handle);
            last = NULL;
            continue;
        }
        parcel->msg = items[i].msg;
        if (items[i].follows && last) {
            parcel->ahead = last;
            last->behind = parcel;
        } else {
            ob_list_push(&fresh, &parcel->node);
        }
        last = parcel;
    }
    for (struct ob_list *node; (node = ob_list_shift(&fresh));) {
        first = OB_CONTAINER(node, struct ob_parcel, node);
        begin(courier, first);
    }
    leave(courier);
}

void ob_courier_probe(outbox_sink *sink, uint64_t handle)
{
    struct ob_courier *courier = (struct ob_courier *)(void *)sink;
    struct ob_parcel *parcel = parcel_new(courier, handle);
    if (!parcel) {
        answer_shortage(courier, handle);
        return;
    }
    parcel->probe = true;
    enter(courier);
    hand(courier, parcel);
    leave(courier);
}

static struct ob_parcel *find(struct ob_courier *courier, uint64_t handle)
{
    OB_LIST_EACH (it, &courier->live) {
        struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, live);
        if (parcel->handle == handle && !atomic_load(&parcel->cancelled))
            return parcel;
    }
    return NULL;
}

/* What is with the thread comes back in its own time, and nobody hears of it. */
void ob_courier_cancel(outbox_sink *sink, uint64_t handle)
{
    struct ob_courier *courier = (struct ob_courier *)(void *)sink;
    struct ob_parcel *parcel = find(courier, handle);
    if (!parcel)
        return;
    enter(courier);
    atomic_store(&parcel->cancelled, true);
    parcel->msg = NULL;
    if (parcel->ahead)
        parcel->ahead->behind = NULL;
    parcel->ahead = NULL;
    drop_followers(courier, parcel);
    if (!parcel->handed) {
        ob_list_remove(&parcel->node);
        ob_list_remove(&parcel->live);
        ob_parcel_free(parcel);
    }
    leave(courier);
}

/* ---- life ---- */

const char *ob_courier_keep(struct ob_courier *courier, const struct ob_options *options, const char *name,
                            bool *failed)
{
    const char *text;
    *failed |= ob_option_keep(options, name, &courier->arena, &text, NULL) != OUTBOX_OK;
    return text;
}

static enum outbox_code read_settings(struct ob_courier *courier, const struct ob_options *options,
                                      struct outbox_error *err)
{
    const struct ob_courier_driver *driver = courier->driver;
    const char *address = driver->address ? ob_option_text_or(options, driver->address, "") : "";
    courier->connect_timeout_us = ob_option_int(options, "connect_timeout", 3000000);
    courier->ack_timeout_us = ob_option_int(options, "ack_timeout", 5000000);
    courier->window = (size_t)ob_option_int(options, "in_flight", 256);
    courier->one_address = !strstr(address, "{{");
    for (const char *at = address; (at = strstr(at, "{{")); at += 2)
        courier->reads_payload |= at[2 + strspn(at + 2, " ")] != '@';
    enum outbox_code code = driver->open(courier->self, courier, options, err);
    if (!code)
        code = ob_render_read(&courier->render, options, &courier->arena, err);
    return code ? code : ob_template_new(address, OB_ESCAPE_NONE, &courier->address, err);
}

enum outbox_code ob_courier_open(const struct ob_courier_driver *driver, const struct outbox_sink_option *options,
                                 size_t count, const struct outbox_sink_host *host, outbox_sink **sink,
                                 struct outbox_error *err)
{
    struct ob_courier *courier = ob_calloc(1, sizeof *courier);
    int number;
    *sink = NULL;
    if (!courier)
        return ob_error_nomem(err);
    courier->driver = driver;
    courier->self = ob_calloc(1, driver->size);
    courier->host = host;
    courier->event_fd = -1;
    ob_arena_init(&courier->arena, 0);
    ob_list_init(&courier->live);
    ob_list_init(&courier->queue);
    ob_list_init(&courier->back);
    ob_list_init(&courier->todo);
    ob_list_init(&courier->out);
    pthread_mutex_init(&courier->mutex, NULL);
    enum outbox_code code =
        courier->self ? read_settings(courier, &(const struct ob_options){options, count}, err) : ob_error_nomem(err);
    if (!code && (courier->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        code = ob_error_set(err, OUTBOX_INVALID, "no descriptor for the sink: %s", strerror(errno));
    if (!code && (number = pthread_create(&courier->thread, NULL, ob_courier_run, courier)))
        code = ob_error_set(err, OUTBOX_INVALID, "no thread for the sink: %s", strerror(number));
    if (code) {
        ob_courier_free(courier);
        return code;
    }
    *sink = (outbox_sink *)(void *)courier;
    return OUTBOX_OK;
}

void ob_courier_close(outbox_sink *sink)
{
    struct ob_courier *courier = (struct ob_courier *)(void *)sink;
    if (!courier || courier->closing)
        return;
    enter(courier);
    courier->closing = true;
    leave(courier);
}
