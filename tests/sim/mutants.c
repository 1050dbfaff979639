/* mutants.c - the test of the test: bugs planted in the core and in the model store, each of which the simulator must
 * catch within the seeds given. Proves: N7 (a ledger that cannot fail proves nothing). */
#include "core/mutant.h"
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ob_mutant ob_mutant;

static const struct {
    const char *name, *what;
} rows[OB_MUTANT_COUNT] = {
#define ROW(name_, what_) [OB_MUTANT_##name_] = {#name_, what_}
    ROW(ACK_BEFORE_SEND, "settled as delivered when it is handed over"),
    ROW(TIMEOUT_IS_SUCCESS, "no verdict counts as accepted"),
    ROW(DROPPED_ROW, "a claimed message is forgotten"),
    ROW(NO_ORDER, "keys are ignored"),
    ROW(RUN_GOES_ON, "what is behind a failure is sent all the same"),
    ROW(LEASE_IGNORED, "sent whether or not the lease has run out"),
    ROW(NO_RENEWAL, "leases of slow deliveries are not renewed"),
    ROW(EXPIRED_NACK, "a failure is settled after the lease has run out"),
    ROW(BREAKER_SPENDS, "an outage costs attempts"),
    ROW(BREAKER_CLAIMS, "claims do not leave out what is shut"),
    ROW(BREAKER_FLOODS, "a half open breaker lets everything through"),
    ROW(BREAKER_GULLIBLE, "a failed probe closes the breaker"),
    ROW(FAILURES_IGNORED, "a sink that fails everybody is sent more"),
    ROW(FAILURE_OPENS, "one failure among acceptances opens the breaker"),
    ROW(RECIPIENT_COUNTS, "what fails for one recipient counts for the breaker"),
    ROW(REFUSAL_CLOSES, "a refusal of the message closes the breaker of a sink that fails everybody"),
    ROW(PROBES_FLAT, "a sink that goes on failing is tried as often as at first"),
    ROW(PROBES_FREE, "a message that fails as a probe, again and again, never dies"),
    ROW(LIMIT_LOWERS_ONLY, "a sink that allows more attempts than the namespace is not believed"),
    ROW(LIMIT_OVERRULES, "a sink overrules what the producer asked for"),
    ROW(LOCAL_ANSWERS, "a message that is refused unsent closes the breaker"),
    ROW(REFUSAL_SPENDS, "a sink that refuses everybody costs attempts"),
    ROW(REFUSAL_IS_FREE, "a message that is refused for what it is costs none"),
    ROW(REFUSAL_OPENS, "one message that is refused opens the breaker for all"),
    ROW(SILENCE_SPENDS, "a sink that answers nobody costs attempts"),
    ROW(SILENCE_IS_FREE, "unknown outcomes never cost an attempt"),
    ROW(DEFERRED_FLAT, "what is put off again and again waits no longer for it"),
    ROW(PROBES_RUSH, "claims of probes come one after the other"),
    ROW(NO_RATE, "the rate limit is ignored"),
    ROW(ONE_TOO_MANY, "a sink gets one more than its cap"),
    ROW(NO_TOMBS, "a claim on its way is believed after its predecessor failed"),
    ROW(ONE_WORKER_NAME, "the name is kept after an answer was lost"),
    ROW(UNKNOWN_RELEASED, "an unknown outcome counts as never sent"),
    ROW(RELEASE_SPENDS, "what was never sent costs an attempt"),
    ROW(LATE_REPLY, "a late answer is taken for that of the next message"),
    ROW(RETRY_AFTER_IGNORED, "the receiver's wish for patience is ignored"),
    ROW(DIES_OUT_OF_TURN, "a message of a run dies while one before it is still to come"),
    ROW(STOP_HOLDS, "the grace period never ends"),
    ROW(INTERRUPTED_SPENDS, "what our own shutdown cuts off costs an attempt"),
    ROW(SETTLE_FORGOTTEN, "a settle that failed is not tried again"),
    ROW(WAKE_LOST, "after a failed claim there is never another"),
    ROW(NO_FENCING, "the store takes a settle whatever its token"),
    ROW(STORE_DROPS_ROW, "the store loses a message it was to hand out"),
    ROW(STORE_FORGETS_KEY, "the store hands out messages of a key at will"),
    ROW(PREFETCH_RELAXED, "the name is trusted though a crash of the store may have undone settles"),
    ROW(LOG_NO_CLOCK, "a message's place in the log is its own transaction's number"),
    ROW(LOG_NO_STRAGGLERS, "transactions that ran when the last piece was taken are forgotten"),
    ROW(LOG_NO_LATE, "of those transactions, rows placed behind their key's last are forgotten"),
    ROW(LOG_BLOCKED_GO, "a key with rows in the queue is taken from the log"),
    ROW(LOG_TWO_WINDOWS, "a keyed shard has two open windows"),
    ROW(LOG_REPAIRS_ONE, "the repair of a window puts back one row"),
    ROW(LOG_NO_FENCE, "a window is settled whoever holds it"),
    ROW(LOG_COUNTS_TWICE, "a settle that is repeated counts twice"),
    ROW(LOG_AGAIN_DROPS, "an outcome is told to the window though an eject without an answer may have emptied it"),
    ROW(LOG_EJECTS_ALL, "what is settled already becomes a row of the queue when the rest does"),
    ROW(LOG_CLOSES_EARLY, "a window is closed while rows of it are unsettled"),
    ROW(LOG_OVERTAKES, "a row goes to the queue while one of its key before it is in the window"),
    ROW(LOG_CLOCKS_STAY, "keys keep their clocks in another cluster"),
    ROW(LOG_NO_BASE, "rows from before the rebase come back"),
#undef ROW
};

/* The seed that catches it; 0: none did. */
static uint64_t caught_by(enum ob_mutant mutant, uint64_t most, char *how, size_t size)
{
    ob_mutant = mutant;
    for (uint64_t seed = 1; seed <= most; seed++) {
        struct world world;
        sim_run(&world, seed, false);
        bool caught = world.failure[0] != 0;
        snprintf(how, size, "%s", world.failure);
        sim_free(&world);
        if (caught)
            return seed;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    int missed = 0;
    printf("1..%d\n", OB_MUTANT_COUNT);
    for (int i = 0; i < OB_MUTANT_COUNT; i++) {
        char how[300];
        uint64_t seed = caught_by((enum ob_mutant)i, i ? most : 200, how, sizeof how);
        bool good = i ? seed > 0 : seed == 0;
        missed += !good;
        if (i == 0)
            printf("%sok 1 - N7: without a planted bug nothing is caught\n", good ? "" : "not ");
        else
            printf("%sok %d - N7: caught: %s\n", good ? "" : "not ", i + 1, rows[i].what);
        if (seed)
            printf("# %s: seed %" PRIu64 ": %s\n", i ? rows[i].name : "none", seed, how);
    }
    return missed > 0;
}
