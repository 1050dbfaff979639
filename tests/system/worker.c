/* worker.c - a worker for tests of the command line, on any store.
 *
 *   worker URL settle OUTCOME CODE ERROR   claims all that is due and settles it, due again at once; prints the ids
 *   worker URL claim                       only claims
 *   worker URL configure NAMESPACE NAME VALUE
 *   worker URL erase TENANT
 *   worker URL acts                        prints what operators did: "action actor reason" a line */
#include "core/batch.h"
#include "lib/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct outbox_error err;

static int check(ob_code code)
{
    if (!code)
        return 0;
    fprintf(stderr, "%s: %s\n", outbox_code_name(code), err.text);
    exit(1);
}

static void settle(struct ob_store *store, const struct outbox_delivery *msg, char **words)
{
    struct outbox_settle item = {.id = msg->id,
                                 .token = msg->token,
                                 .outcome = (enum outbox_outcome)strtol(words[0], NULL, 10),
                                 .code = words[1][0] ? words[1] : NULL,
                                 .error = words[2][0] ? words[2] : NULL,
                                 .latency_us = 12000};
    if (item.outcome == OUTBOX_DELIVERED)
        item.reference = "theirs-1";
    check(store->ops->settle(store, &item, 1, &err));
    if (item.result != OUTBOX_SETTLED)
        exit(3);
}

static void work(struct ob_store *store, char **words)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_batch *batch;
    char id[37];
    want.worker = "w1";
    check(store->ops->claim(store, &want, &batch, &err));
    for (size_t i = 0; i < batch->size; i++) {
        outbox_uuid_format(&batch->items[i].id, id);
        puts(id);
        if (words)
            settle(store, &batch->items[i], words);
    }
    batch->free(batch);
}

static bool print_act(void *ctx, const struct ob_act_row *row)
{
    (void)ctx;
    printf("%s %s %s\n", row->action, row->actor, row->reason ? row->reason : "-");
    return true;
}

int main(int argc, char **argv)
{
    struct ob_store *store;
    const char *verb = argc > 2 ? argv[2] : "";
    if (argc < 3)
        return 2;
    check(ob_store_open(argv[1], NULL, &store, &err));
    if (strcmp(verb, "settle") == 0 && argc == 6)
        work(store, argv + 3);
    else if (strcmp(verb, "claim") == 0)
        work(store, NULL);
    else if (strcmp(verb, "configure") == 0 && argc == 6)
        check(store->ops->configure(store, argv[3], argv[4], argv[5], NULL, &err));
    else if (strcmp(verb, "erase") == 0 && argc == 4)
        check(store->ops->erase_tenant(store, argv[3], NULL, &(int64_t){0}, &err));
    else if (strcmp(verb, "acts") == 0)
        check(store->ops->acts(store, NULL, print_act, NULL, &err));
    else
        return 2;
    store->ops->close(store);
    return 0;
}
