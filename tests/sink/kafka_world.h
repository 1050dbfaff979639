/* kafka_world.h - a mock cluster of one broker with the topic "orders", and the Kafka sink in its harness. */
#ifndef KAFKA_WORLD_H
#define KAFKA_WORLD_H

#include "ob_test.h"

#include "harness.h"
#include "sink/kafka/kafka_int.h"

#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>

enum { PRODUCE = 0, METADATA = 3, WAIT_MS = 15000 };

struct world {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
    struct harness *h;
    char brokers[256];
};

static inline int begin(void **state)
{
    static struct world world;
    char why[256];
    world = (struct world){0};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why);
    world.rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    world.cluster = world.rk ? rd_kafka_mock_cluster_new(world.rk, 1) : NULL;
    if (!world.cluster)
        return -1;
    rd_kafka_mock_topic_create(world.cluster, "orders", 1, 1);
    snprintf(world.brokers, sizeof world.brokers, "%s", rd_kafka_mock_cluster_bootstraps(world.cluster));
    *state = &world;
    return 0;
}

static inline int end(void **state)
{
    struct world *world = *state;
    bool clean = harness_close(world->h);
    rd_kafka_mock_cluster_destroy(world->cluster);
    rd_kafka_destroy(world->rk);
    return clean ? 0 : -1;
}

static inline void open_with(struct world *world, const char *name, const char *value)
{
    const struct outbox_sink_option options[] = {{"brokers", world->brokers},
                                                 {"kafka.retry.backoff.ms", "10"},
                                                 {"kafka.reconnect.backoff.max.ms", "100"},
                                                 {"kafka.reconnect.backoff.ms", "20"},
                                                 {name, value}};
    struct outbox_error err = {0};
    world->h = harness_open("kafka", options, OB_COUNT(options) - (name ? 0 : 1), &err);
    if (!world->h)
        fail_msg("%s", err.text);
}

static inline struct outbox_delivery message(const char *key, int seq)
{
    return HARNESS_MESSAGE("orders", "{\"n\":1}", .key = key, .seq = seq);
}

static inline const struct harness_verdict *send_and_wait(struct world *world)
{
    struct outbox_delivery msg = message("k", 1);
    uint64_t handle = harness_send(world->h, &msg);
    assert_true(harness_wait(world->h, WAIT_MS));
    return harness_verdict(world->h, handle);
}

static inline void script_errors(struct world *world, int key, rd_kafka_resp_err_t err, size_t count)
{
    rd_kafka_mock_clear_request_errors(world->cluster, (int16_t)key);
    for (size_t i = 0; i < count; i++)
        rd_kafka_mock_push_request_errors(world->cluster, (int16_t)key, 1, err);
}

static inline void says(const struct harness_verdict *verdict, const char *text)
{
    if (!verdict->text || !strstr(verdict->text, text))
        fail_msg("it says: %s", verdict->text ? verdict->text : "nothing");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
