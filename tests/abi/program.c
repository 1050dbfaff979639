/* program.c - a producer and worker built with headers of another age: sends a, b and skipped, claims without skipped, settles
 * a as delivered and b as failed in one call. Prints what it got. */
#include "frozen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, DELIVERED = 1, FAILED = 3, ITEMS = 4 };

static outbox_store *store;
static struct outbox_error err;

static void check(int code)
{
    if (code == OK)
        return;
    printf("error %d: %s\n", code, err.text);
    exit(1);
}

/* Whatever lies behind the caller's struct must stay as it is. */
static void send(const char *topic)
{
    struct {
        struct outbox_receipt receipt;
        char behind[64];
    } room;
    struct outbox_message msg = {.size = sizeof msg, .topic = topic, .payload = "{}", .payload_len = 2, .priority = -1};
    memset(&room, 0x5a, sizeof room);
    room.receipt.size = sizeof room.receipt;
    check(outbox_send(store, &msg, &room.receipt, &err));
    for (size_t i = 0; i < sizeof room.behind; i++)
        if (room.behind[i] != 0x5a)
            abort();
    if (room.receipt.size != sizeof room.receipt)
        abort();
    TODAY(printf("sent %s created %d\n", topic, room.receipt.created);)
}

static outbox_batch *claim(void)
{
    const struct outbox_lane only[] = {{"default", "a"}, {"default", "b"}, {"default", "c"}};
    struct outbox_claim want = {.size = sizeof want,
                                .worker = "aged",
                                .limit = 10,
                                .lease_us = 30000000,
                                .run = 1,
                                .lane_size = sizeof(struct outbox_lane),
                                .rule_size = sizeof(struct outbox_lane_rule),
                                .only = only,
                                .only_count = 3};
    TODAY(const struct outbox_lane_rule rules[] = {{.topic = "skip*", .skip = true}, {.topic = "c", .skip = true}};
          want.rules = rules; want.rule_count = 2;)
    outbox_batch *batch;
    check(outbox_claim(store, &want, &batch, &err));
    return batch;
}

int main(int argc, char **argv)
{
    struct outbox_settle items[ITEMS];
    check(outbox_open(argc > 1 ? argv[1] : "", NULL, &store, &err));
    send("a");
    send("b");
    send("skipped");
    outbox_batch *batch = claim();
    size_t count = outbox_batch_size(batch);
    for (size_t i = 0; i < count && i < ITEMS; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        bool is_a = strcmp(msg->topic, "a") == 0;
        TOMORROW(if (OUTBOX_HAS(msg, colour)) abort();)
        items[i] = (struct outbox_settle){.size = sizeof items[i],
                                          .id = msg->id,
                                          .token = msg->token,
                                          .outcome = is_a ? DELIVERED : FAILED,
                                          .result = -1,
                                          TODAY(.delay_us = -1, .latency_us = -1, ).error = is_a ? NULL : "aged"};
        printf("claimed %s\n", msg->topic);
    }
    check(outbox_settle(store, items, count, &err));
    for (size_t i = 0; i < count; i++)
        printf("settled %d dead %d\n", items[i].result, items[i].dead);
    outbox_batch_free(batch);
    outbox_close(store);
    return 0;
}
