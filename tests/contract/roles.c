/* roles.c - what the small processes of the tests do. They talk to the test in lines; see proc.h. */
#include "proc.h"

static const char *arg_or_null(const char *arg)
{
    return strcmp(arg, "-") == 0 ? NULL : arg;
}

/* producer TOPIC KEY DEDUPE: enqueues in a transaction, says "held CREATED SEQ", and ends it as it is told. */
static int producer(struct fx *fx, int argc, char **argv)
{
    (void)argc;
    ok(fx, begin);
    struct outbox_receipt receipt =
        put(fx, .topic = argv[0], .key = arg_or_null(argv[1]), .dedupe_key = arg_or_null(argv[2]));
    say("held %d %lld", receipt.created, (long long)receipt.seq);
    char line[64];
    if (!hear(line, sizeof(line)))
        return 1;
    if (strcmp(line, "commit") == 0)
        ok(fx, commit);
    else
        ok(fx, rollback);
    say("done");
    return 0;
}

/* racer TOPIC KEY: for every line, enqueues with that dedupe key and says "ID CREATED SEQ". */
static int racer(struct fx *fx, int argc, char **argv)
{
    (void)argc;
    char line[64];
    while (hear(line, sizeof(line))) {
        ok(fx, begin);
        struct outbox_receipt receipt = put(fx, .topic = argv[0], .key = arg_or_null(argv[1]), .dedupe_key = line);
        ok(fx, commit);
        say("%s %d %lld", uuid_text(fx, receipt.id), receipt.created, (long long)receipt.seq);
    }
    return 0;
}

/* worker NAME LIMIT: claims, says "took N", and hangs until it is killed or told to ack. */
static int worker(struct fx *fx, int argc, char **argv)
{
    (void)argc;
    outbox_batch *batch = claim(fx, .worker = argv[0], .limit = atoi(argv[1]));
    say("took %zu", outbox_batch_size(batch));
    char line[64];
    if (!hear(line, sizeof(line)))
        return 1;
    for (size_t i = 0; i < outbox_batch_size(batch); i++)
        ack(fx, outbox_batch_at(batch, i));
    say("done");
    return 0;
}

/* grabber NAME LIMIT: waits for a line, then claims until nothing is left, saying each id, and "end". */
static int grabber(struct fx *fx, int argc, char **argv)
{
    (void)argc;
    char line[64];
    say("ready");
    if (!hear(line, sizeof(line)))
        return 1;
    for (;;) {
        outbox_batch *batch = claim(fx, .worker = argv[0], .limit = atoi(argv[1]));
        if (outbox_batch_size(batch) == 0)
            break;
        for (size_t i = 0; i < outbox_batch_size(batch); i++)
            say("%s", uuid_text(fx, outbox_batch_at(batch, i)->id));
    }
    say("end");
    return 0;
}

/* waiter TIMEOUT_MS: for every line, waits for work and says "woken MS" or "timeout MS". Its very first wait may say
 * that there may be work, for it cannot know what came before it; that one is not told. */
static int waiter(struct fx *fx, int argc, char **argv)
{
    (void)argc;
    char line[64];
    bool primed;
    ok(fx, wait, 1000, &primed);
    while (hear(line, sizeof(line))) {
        bool woken = false;
        int64_t start = now_us();
        say("waiting");
        ok(fx, wait, atoi(argv[0]) * 1000LL, &woken);
        say("%s %lld", woken ? "woken" : "timeout", (long long)(now_us() - start) / 1000);
    }
    return 0;
}

const struct role roles[] = {
    {"producer", producer},       {"racer", racer},   {"worker", worker},
    {"grabber", grabber},         {"waiter", waiter}, {"load_producer", load_producer},
    {"load_worker", load_worker}, {NULL, NULL},
};
