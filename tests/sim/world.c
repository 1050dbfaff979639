/* world.c - chance, the queue of events, and what a seed decides. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t sim_random(struct world *world)
{
    return ob_random_next(&world->random);
}

int64_t sim_between(struct world *world, int64_t low, int64_t high)
{
    return low + (int64_t)(sim_random(world) % (uint64_t)(high - low + 1));
}

bool sim_chance(struct world *world, int percent)
{
    return sim_between(world, 0, 99) < percent;
}

struct sim_event *sim_post(struct world *world, int64_t delay_us, enum sim_kind kind)
{
    struct sim_event *event = calloc(1, sizeof *event);
    event->at_us = world->now_us + delay_us;
    event->number = world->numbers++;
    event->kind = kind;
    if (!ob_heap_push(&world->events, &event->node))
        abort();
    return event;
}

int64_t sim_store_now(const struct world *world)
{
    return world->now_us + world->jump_us;
}

int64_t life_now(const struct world *world, const struct life *life)
{
    return world->now_us + life->clock_us;
}

void sim_fail(struct world *world, const char *format, ...)
{
    if (world->failure[0])
        return; /* the first one is the cause */
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure, sizeof world->failure, format, args);
    va_end(args);
    if (world->trace)
        printf("# %10.6f FAILURE %s\n", (double)world->now_us / SECOND, world->failure);
}

void sim_say(struct world *world, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (world->trace)
        printf("# %10.6f %s\n", (double)world->now_us / SECOND, line);
    world->digest = (world->digest ^ (uint64_t)world->now_us) * UINT64_C(0x100000001b3);
    for (int i = 0; i < len && i < (int)sizeof line - 1; i++)
        world->digest = (world->digest ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
}

static struct world *short_world;

static void *scarce_alloc(size_t size)
{
    if (short_world && sim_between(short_world, 0, 999) < short_world->plan.no_memory_per_mille)
        return NULL;
    return malloc(size);
}

void sim_memory(struct world *world, bool short_of_it)
{
    short_world = short_of_it && !world->healed && world->plan.no_memory_per_mille ? world : NULL;
    outbox_set_allocator(scarce_alloc, free);
}

int sim_limit(const struct world *world, const struct msg *msg)
{
    int sink = msg->sink >= 0 ? msg->sink : 0, most = world->plan.sink[sink].max_attempts;
    return most > 0 && !msg->own ? most : msg->asked;
}

int sim_route(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    (void)patience;
    const struct world *world = ctx;
    int index = msg_of(&msg->id);
    return world->msgs[index].sink >= 0 ? world->msgs[index].sink : world->routes ? 0 : -1;
}

static void plan_sink(struct world *world, struct ob_sink_settings *sink, int64_t lease)
{
    sink->concurrency = (int)sim_between(world, 1, 6);
    sink->batch = (int)sim_between(world, 1, 8);
    sink->run = sim_chance(world, 50) ? (int)sim_between(world, 2, 6) : 1;
    if (sim_chance(world, 30)) {
        sink->rate_count = sim_between(world, 2, 40);
        sink->rate_burst = sim_between(world, 1, 5);
    }
    sink->timeout_us = sim_between(world, lease / 4, 2 * lease); /* longer than the lease: renewal must work */
    sink->retry.kind = (enum ob_retry_kind)sim_between(world, OB_RETRY_EQUAL, OB_RETRY_LIST);
    sink->retry.base_us = 100 * MS;
    sink->retry.cap_us = 3 * SECOND;
    sink->retry.after_cap_us = 5 * SECOND;
    sink->retry.list_count = 3;
    sink->retry.list_us[0] = 50 * MS, sink->retry.list_us[1] = 500 * MS, sink->retry.list_us[2] = SECOND;
    if (sim_chance(world, 30))
        sink->max_attempts = (int)sim_between(world, 1, 9);
    sink->breaker.threshold = (int)sim_between(world, 1, 5);
    sink->breaker.window = (int)sim_between(world, 3, 30);
    sink->breaker.ratio = (int)sim_between(world, 40, 100);
    sink->breaker.base_us = 100 * MS;
    sink->breaker.failing_cap_us = sink->breaker.blocked_cap_us = 3 * SECOND;
    sink->limited_base_us = 200 * MS;
    sink->limited_cap_us = 2 * SECOND;
}

static void plan_faults(struct world *world, struct plan *plan)
{
    /* A run is bad in some ways, not in all: what always fails together hides what fails alone. */
    if (sim_chance(world, 50))
        plan->fail_percent = (int)sim_between(world, 1, 30);
    if (sim_chance(world, 30))
        plan->unreachable_percent = (int)sim_between(world, 1, 30);
    if (sim_chance(world, 40))
        plan->limited_percent = (int)sim_between(world, 1, 25);
    if (sim_chance(world, 20))
        plan->blocked_percent = (int)sim_between(world, 1, 10);
    if (sim_chance(world, 30))
        plan->poison_percent = 10;
    if (sim_chance(world, 30))
        plan->refused_percent = (int)sim_between(world, 3, 30);
    if (plan->calm)
        return;
    if (sim_chance(world, 50))
        plan->unknown_percent = (int)sim_between(world, 1, 25);
    if (sim_chance(world, 30))
        plan->hang_percent = (int)sim_between(world, 1, 10);
    if (sim_chance(world, 40))
        plan->slow_percent = (int)sim_between(world, 1, 30);
    if (sim_chance(world, 40))
        plan->lost_request_percent = (int)sim_between(world, 1, 15);
    if (sim_chance(world, 40))
        plan->lost_reply_percent = (int)sim_between(world, 1, 15);
    if (sim_chance(world, 30))
        plan->late_percent = (int)sim_between(world, 1, 10);
    if (sim_chance(world, 15))
        plan->no_memory_per_mille = (int)sim_between(world, 1, 50);
    int *counts[] = {&plan->crash,  &plan->pause,  &plan->restart, &plan->jump,    &plan->outage, &plan->down,
                     &plan->freeze, &plan->broken, &plan->undo,    &plan->restore, &plan->lane};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        *counts[i] = sim_chance(world, 30) ? (int)sim_between(world, 1, 4) : 0;
}

/* One world in three has only the queue, one only the log, one both. */
static void plan_lanes(struct world *world, struct plan *plan)
{
    int which = (int)(world->seed % 3);
    for (int i = 0; i < NAMESPACES; i++)
        plan->queue_lane[i] = which == 0 || (which == 2 && i == 0);
    for (int i = 0; i < RELAYS; i++)
        plan->plain[i] = sim_chance(world, 15);
    plan->slow_tx_percent = sim_chance(world, 60) ? (int)sim_between(world, 5, 40) : 0;
    plan->burst_us = sim_chance(world, 50) ? plan->chaos_us : sim_between(world, 10 * MS, 2 * SECOND);
    plan->lane = which == 2 ? plan->lane : 0;
    plan->restore = which ? plan->restore : 0;
}

void sim_plan(struct world *world)
{
    struct plan *plan = &world->plan;
    int64_t lease = sim_between(world, 2, 5) * SECOND;
    plan->calm = world->seed % 6 == 0;
    plan->messages = (int)sim_between(world, 5, MESSAGES);
    plan->relays = (int)sim_between(world, 1, RELAYS);
    plan->sinks = (int)sim_between(world, 1, DESTS);
    plan->keys = (int)sim_between(world, 1, KEYS);
    plan->keyed_percent = sim_chance(world, 20) ? 0 : (int)sim_between(world, 20, 100);
    plan->blind_percent = sim_chance(world, 30) ? 30 : 0;
    plan->unrouted_percent = sim_chance(world, 15) ? 10 : 0;
    plan->chaos_us = sim_between(world, 3, 20) * SECOND;
    plan_faults(world, plan);
    plan_lanes(world, plan);
    for (int i = 0; i < plan->sinks; i++) {
        plan_sink(world, &plan->sink[i], lease);
        plan->pipelined[i] = sim_chance(world, 50);
    }
    plan->machine = (struct ob_machine_settings){
        .max_messages = (int)sim_between(world, 2, 40),
        .max_bytes = sim_chance(world, 20) ? 4000 : 0,
        .claim_limit = (int)sim_between(world, 1, 20),
        .settle_limit = (int)sim_between(world, 1, 20),
        .concurrency = (int)sim_between(world, 2, 12),
        .run = (int)sim_between(world, 1, 8),
        .prefetch = sim_chance(world, 60),
        .lease_us = lease,
        .poll_us = sim_between(world, 100, 800) * MS,
        .store_backoff_base_us = 20 * MS,
        .store_backoff_cap_us = 400 * MS,
        .unrouted_dead = sim_chance(world, 50),
        .unrouted_delay_us = 2 * SECOND,
        .flush_us = 2 * SECOND,
        .sinks = plan->sink,
        .sink_count = plan->sinks,
        .route = sim_route,
        .route_ctx = world,
    };
}
