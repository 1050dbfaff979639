/* flight.c - see flight.h. All tables are allocated once; afterwards only messages and texts are allocated. */
#include "core/flight.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "core/message_copy.h"
#include "core/mutant.h"

#include <assert.h>
#include <string.h>

#define BIT(n) (1u << (n))

static const unsigned next_states[] = {
    [OB_FLIGHT_FREE] = BIT(OB_FLIGHT_WAITING) | BIT(OB_FLIGHT_READY) | BIT(OB_FLIGHT_DONE) | BIT(OB_FLIGHT_FREE),
    [OB_FLIGHT_WAITING] = BIT(OB_FLIGHT_READY) | BIT(OB_FLIGHT_SENT) | BIT(OB_FLIGHT_DONE),
    [OB_FLIGHT_READY] = BIT(OB_FLIGHT_WAITING) | BIT(OB_FLIGHT_SENT) | BIT(OB_FLIGHT_DONE),
    [OB_FLIGHT_SENT] = BIT(OB_FLIGHT_DONE) | BIT(OB_FLIGHT_FREE),
    [OB_FLIGHT_DONE] = BIT(OB_FLIGHT_SETTLING) | BIT(OB_FLIGHT_FREE),
    [OB_FLIGHT_SETTLING] = BIT(OB_FLIGHT_DONE) | BIT(OB_FLIGHT_FREE),
};
_Static_assert(sizeof next_states / sizeof next_states[0] == OB_FLIGHT_STATE_COUNT, "a state without a row");

static bool sooner(const struct ob_heap_node *a, const struct ob_heap_node *b)
{
    return OB_CONTAINER(a, struct ob_flight, timer)->timer_us < OB_CONTAINER(b, struct ob_flight, timer)->timer_us;
}

bool ob_flights_init(struct ob_flights *flights, int count)
{
    *flights = (struct ob_flights){.count = count};
    ob_list_init(&flights->free);
    ob_heap_init(&flights->timers, sooner);
    flights->all = ob_calloc((size_t)count, sizeof *flights->all);
    if (!flights->all)
        return false;
    for (int i = 0; i < count; i++) {
        struct ob_flight *flight = &flights->all[i];
        flight->index = (uint32_t)i;
        ob_list_init(&flight->node);
        ob_list_init(&flight->key_node);
        ob_list_init(&flight->renew_node);
        ob_list_push(&flights->free, &flight->node);
        if (!ob_heap_push(&flights->timers, &flight->timer))
            return false;
    }
    while (ob_heap_pop(&flights->timers))
        ; /* the heap keeps its room */
    flights->in_state[OB_FLIGHT_FREE] = count;
    return true;
}

void ob_flights_fini(struct ob_flights *flights)
{
    if (!flights)
        return;
    for (int i = 0; flights->all && i < flights->count; i++) {
        ob_free(flights->all[i].msg);
        ob_free(flights->all[i].texts);
    }
    ob_heap_fini(&flights->timers);
    ob_free(flights->all);
    *flights = (struct ob_flights){0};
}

struct ob_flight *ob_flight_take(struct ob_flights *flights, const struct outbox_delivery *msg)
{
    if (ob_list_empty(&flights->free))
        return NULL;
    struct ob_flight *flight = OB_CONTAINER(flights->free.next, struct ob_flight, node);
    assert(flight->state == OB_FLIGHT_FREE && !flight->msg && !flight->texts && !flight->key);
    uint32_t index = flight->index, reuse = flight->reuse;
    ob_list_remove(&flight->node);
    *flight = (struct ob_flight){.index = index,
                                 .reuse = reuse + 1,
                                 .sink = -1,
                                 .id = msg->id,
                                 .token = msg->token,
                                 .seq = msg->seq,
                                 .spent = msg->spent,
                                 .latency_us = -1,
                                 .delay_us = -1};
    ob_list_init(&flight->node);
    ob_list_init(&flight->key_node);
    ob_list_init(&flight->renew_node);
    flight->msg = ob_message_copy(msg, &flight->bytes);
    flights->bytes += flight->bytes;
    flights->held++;
    return flight;
}

static void give_back(struct ob_flights *flights, struct ob_flight *flight)
{
    assert(!flight->key && ob_list_empty(&flight->key_node));
    flights->bytes -= flight->bytes;
    flights->held--;
    ob_free(flight->msg);
    ob_free(flight->texts);
    flight->msg = NULL;
    flight->texts = NULL;
    if (!OB_MUTANT(LATE_REPLY))
        flight->reuse++;
    else
        flight->reuse--; /* so that the next user of the entry gets the same number */
    ob_list_push_front(&flights->free, &flight->node);
}

void ob_flight_set(struct ob_flights *flights, struct ob_flight *flight, enum ob_flight_state state)
{
    assert(next_states[flight->state] & BIT(state));
    flights->in_state[flight->state]--;
    flights->in_state[state]++;
    flight->state = state;
    ob_list_remove(&flight->node);
    ob_list_remove(&flight->renew_node);
    ob_heap_remove(&flights->timers, &flight->timer);
    if (state == OB_FLIGHT_FREE)
        give_back(flights, flight);
}

void ob_flight_timer(struct ob_flights *flights, struct ob_flight *flight, int64_t at_us)
{
    flight->timer_us = at_us;
    if (at_us == INT64_MAX) {
        ob_heap_remove(&flights->timers, &flight->timer);
    } else if (flight->timer.place) {
        ob_heap_moved(&flights->timers, &flight->timer);
    } else {
        bool pushed = ob_heap_push(&flights->timers, &flight->timer);
        assert(pushed); /* ob_flights_init made the room */
        (void)pushed;
    }
}

uint64_t ob_flight_handle(const struct ob_flight *flight)
{
    return (uint64_t)flight->reuse << 32 | flight->index;
}

struct ob_flight *ob_flight_find(const struct ob_flights *flights, uint64_t handle)
{
    uint32_t index = (uint32_t)handle;
    if (index >= (uint32_t)flights->count)
        return NULL;
    struct ob_flight *flight = &flights->all[index];
    return flight->state != OB_FLIGHT_FREE && flight->reuse == handle >> 32 ? flight : NULL;
}

static size_t cut(const char *text, size_t most)
{
    size_t len = strnlen(text, most + 1);
    if (len <= most)
        return len;
    len = most;
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

static const char *put(char **at, const char *text, size_t len)
{
    if (!text)
        return NULL;
    char *start = *at;
    memcpy(start, text, len);
    start[len] = '\0';
    *at = start + len + 1;
    return start;
}

void ob_flight_texts(struct ob_flight *flight, const char *code, const char *error, const char *reference,
                     const char *output)
{
    if (output && strnlen(output, OB_TEXT_OUTPUT + 1) > OB_TEXT_OUTPUT)
        output = NULL;
    if (!code && !error && !reference && !output)
        return;
    size_t code_len = code ? cut(code, OB_TEXT_CODE) : 0, error_len = error ? cut(error, OB_TEXT_ERROR) : 0;
    size_t reference_len = reference ? cut(reference, OB_TEXT_REFERENCE) : 0, output_len = output ? strlen(output) : 0;
    ob_free(flight->texts);
    flight->code = flight->error = flight->reference = flight->output = NULL;
    char *at = flight->texts = ob_alloc(code_len + error_len + reference_len + output_len + 4);
    if (!at)
        return;
    flight->code = put(&at, code, code_len);
    flight->error = put(&at, error, error_len);
    flight->reference = put(&at, reference, reference_len);
    flight->output = put(&at, output, output_len);
}

const char *ob_flights_check(const struct ob_flights *flights)
{
    int seen[OB_FLIGHT_STATE_COUNT] = {0};
    size_t bytes = 0;
    for (int i = 0; i < flights->count; i++) {
        const struct ob_flight *flight = &flights->all[i];
        seen[flight->state]++;
        if (flight->state != OB_FLIGHT_FREE)
            bytes += flight->bytes;
        if (flight->state == OB_FLIGHT_FREE && (flight->msg || flight->texts || flight->key || flight->timer.place))
            return "a free entry still owns something";
        bool queued =
            flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_DONE || flight->state == OB_FLIGHT_FREE;
        if (queued == ob_list_empty(&flight->node))
            return "an entry is in a queue exactly while it is free, ready or done";
        if (!ob_list_empty(&flight->renew_node) && flight->state != OB_FLIGHT_SENT)
            return "only messages in flight have their lease renewed";
    }
    for (int i = 0; i < OB_FLIGHT_STATE_COUNT; i++) {
        if (seen[i] != flights->in_state[i])
            return "the entries of a state are miscounted";
    }
    if (flights->held != flights->count - seen[OB_FLIGHT_FREE])
        return "the entries held are miscounted";
    return bytes == flights->bytes ? NULL : "the bytes held are miscounted";
}
