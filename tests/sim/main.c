/* main.c - runs the simulator over many seeds. Proves: N7, N2, N5, M7, M8, M10, M15, S10, S11, V10, Y9 for the core.
 *
 *     sim                        the seeds of `make test`
 *     sim --seeds N [--from F]   more of them
 *     sim --seed N               one, with a trace of everything that happened
 *
 * OUTBOX_SIM_SEEDS in the environment overrides the number of seeds. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct total {
    uint64_t seeds, failed, steps, faults, messages, deliveries, duplicates, lost, dead;
};

static void add(struct total *total, const struct world *world)
{
    total->seeds++;
    total->steps += world->steps;
    total->faults += world->faults;
    total->messages += (uint64_t)world->plan.messages;
    total->deliveries += world->deliveries;
    total->duplicates += world->duplicates;
    total->lost += world->lost_attempts;
    total->dead += world->dead;
}

static void run_seeds(uint64_t from, uint64_t count, struct total *total)
{
    for (uint64_t seed = from; seed < from + count; seed++) {
        struct world world;
        sim_run(&world, seed, false);
        add(total, &world);
        if (world.failure[0]) {
            total->failed++;
            printf("# seed %" PRIu64 " at %.6f s: %s\n", seed, (double)world.now_us / SECOND, world.failure);
            printf("# replay: sim --seed %" PRIu64 "\n", seed);
        }
        sim_free(&world);
        if (total->failed >= 10)
            return;
    }
}

/* One seed is one run: the same twice. */
static bool repeats(uint64_t count)
{
    for (uint64_t seed = 1; seed <= count; seed++) {
        uint64_t digests[2];
        for (int i = 0; i < 2; i++) {
            struct world world;
            sim_run(&world, seed, false);
            digests[i] = world.digest;
            sim_free(&world);
        }
        if (digests[0] != digests[1]) {
            printf("# seed %" PRIu64 " runs differently the second time\n", seed);
            return false;
        }
    }
    return true;
}

static int replay(uint64_t seed)
{
    struct world world;
    sim_run(&world, seed, true);
    printf("seed %" PRIu64 ": %s\n", seed, world.failure[0] ? world.failure : "clean");
    int status = world.failure[0] != 0;
    sim_free(&world);
    return status;
}

int main(int argc, char **argv)
{
    const char *more = getenv("OUTBOX_SIM_SEEDS");
    uint64_t from = 1, count = 6000;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0)
            return replay(value);
        if (strcmp(argv[i], "--seeds") == 0)
            count = value;
        if (strcmp(argv[i], "--from") == 0)
            from = value;
    }
    if (more)
        count = strtoull(more, NULL, 10);
    struct total total = {0};
    printf("1..2\n");
    run_seeds(from, count, &total);
    printf("# %" PRIu64 " seeds, %" PRIu64 " events, %" PRIu64 " faults; %" PRIu64 " messages, %" PRIu64
           " deliveries, %" PRIu64 " duplicates, %" PRIu64 " attempts lost, %" PRIu64 " dead\n",
           total.seeds, total.steps, total.faults, total.messages, total.deliveries, total.duplicates, total.lost,
           total.dead);
    printf("%sok 1 - N7: the ledger is clean over %" PRIu64 " seeds\n", total.failed ? "not " : "", total.seeds);
    bool same = repeats(count < 50 ? count : 50);
    printf("%sok 2 - N7: one seed is one run\n", same ? "" : "not ");
    return total.failed || !same;
}
