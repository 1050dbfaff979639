/* core_path.c - drives COUNT messages through the core's machine: claims of 500, a sink that accepts at once, settles.
 *
 *   core_path COUNT       prints: allocations N
 *
 * For tests/guard/test_guard.py, which also counts its instructions. Allocations are those of the whole loop, not of making the
 * machine. */
#include "core/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLAIM = 500, SECOND = 1000000 };

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned long allocations;

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    allocations++;
    return __real_realloc(old, size);
}

static int to_the_sink(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    (void)ctx;
    (void)msg;
    (void)patience;
    return 0;
}

/* Answers a claim with the next messages: every other one has a key of a thousand. */
static void claim(struct ob_machine *machine, int64_t now, int limit, long *given, long count)
{
    static struct outbox_delivery msgs[CLAIM];
    static char keys[CLAIM][16];
    int n = 0;
    for (; n < limit && n < CLAIM && *given < count; n++, ++*given) {
        snprintf(keys[n], sizeof keys[n], "key-%ld", *given % 1000);
        msgs[n] = (struct outbox_delivery){.size = sizeof msgs[n],
                                           .token = *given + 1,
                                           .name_space = "default",
                                           .topic = "orders.paid",
                                           .key = *given % 2 ? keys[n] : NULL,
                                           .seq = *given % 2 ? *given / 1000 + 1 : 0,
                                           .stream = *given % 2 ? *given % 1000 + 1 : 0,
                                           .payload = "{\"id\": 42}",
                                           .payload_len = 10,
                                           .priority = 4,
                                           .attempt = 1,
                                           .spent = 1,
                                           .max_attempts = 15,
                                           .claimed_at_us = now,
                                           .locked_until_us = now + 30LL * SECOND};
        memcpy(msgs[n].id.bytes, given, sizeof *given);
    }
    ob_machine_event(machine, now, &(struct ob_event){.kind = OB_EVENT_CLAIMED, .msgs = msgs, .count = n});
}

static void deliver(struct ob_machine *machine, int64_t now, const struct ob_action *act)
{
    static uint64_t handles[2000];
    int count = act->count < 2000 ? act->count : 2000;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_ACCEPTED;
    for (int i = 0; i < count; i++) /* the items are gone after the first answer */
        handles[i] = act->items[i].handle;
    for (int i = 0; i < count; i++)
        ob_machine_event(machine, now,
                         &(struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = handles[i], .verdict = &verdict});
}

static long settle(struct ob_machine *machine, int64_t now, const struct ob_action *act)
{
    long count = act->count;
    for (int i = 0; i < act->count; i++)
        act->settles[i].result = OUTBOX_SETTLED;
    ob_machine_event(machine, now, &(struct ob_event){.kind = OB_EVENT_SETTLED});
    return count;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 10000, given = 0, settled = 0;
    struct ob_sink_settings sink = {0};
    struct ob_machine_settings settings = {.sinks = &sink, .sink_count = 1, .route = to_the_sink};
    struct ob_machine *machine;
    int64_t now = 5000LL * SECOND;
    if (ob_machine_new(&settings, now, &machine, NULL))
        return 1;
    unsigned long before = allocations;
    for (long idle = 0; settled < count && idle < 1000; now += 1000) {
        struct ob_action act;
        idle++;
        ob_machine_event(machine, now, &(struct ob_event){.kind = OB_EVENT_WAKE});
        while (ob_machine_next(machine, now, &act)) {
            idle = 0;
            if (act.kind == OB_ACTION_CLAIM)
                claim(machine, now, act.limit, &given, count);
            else if (act.kind == OB_ACTION_DELIVER)
                deliver(machine, now, &act);
            else if (act.kind == OB_ACTION_SETTLE)
                settled += settle(machine, now, &act);
        }
    }
    printf("allocations %lu\n", allocations - before);
    ob_machine_free(machine);
    return settled == count ? 0 : 1;
}
