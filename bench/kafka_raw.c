/* kafka_raw.c - the most that librdkafka can do: records of the same size, handed over as fast as it takes them.
 *
 *     kafka_raw BROKERS TOPIC MESSAGES KEYS PAYLOAD_BYTES
 *
 * The settings that count are the Kafka sink's: idempotent, gapless, as large a queue, the same partitioner; the headers
 * are those of a message. Nobody waits for the predecessor of a key: an idempotent producer keeps the order. Prints
 * {"messages": n, "seconds": s, "per_second": r, "cpu_seconds": u}; the clock stops with the last report. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long reported;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "kafka_raw: %s: %s\n", what, why);
    exit(1);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_report(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque)
{
    (void)producer;
    (void)opaque;
    if (message->err)
        die("a record was not taken", rd_kafka_err2str(message->err));
    reported++;
}

static rd_kafka_t *open_producer(const char *brokers)
{
    static const char *const settings[][2] = {
        {"enable.idempotence", "true"},          {"enable.gapless.guarantee", "true"}, {"message.timeout.ms", "0"},
        {"queue.buffering.max.kbytes", "16384"}, {"partitioner", "murmur2_random"},
    };
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why))
        die("bootstrap.servers", why);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why))
            die(settings[i][0], why);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_log_cb(conf, NULL); /* a broker that is just there makes it talk */
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!producer)
        die("no producer", why);
    return producer;
}

static rd_kafka_headers_t *make_headers(long number, long keys)
{
    char text[40], key[24];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
    snprintf(text, sizeof text, "018bcfe5-6800-7abc-8def-%012lx", (unsigned long)number & 0xffffffffffff);
    rd_kafka_header_add(headers, "outbox-id", -1, text, -1);
    rd_kafka_header_add(headers, "outbox-topic", -1, "orders", -1);
    rd_kafka_header_add(headers, "outbox-namespace", -1, "default", -1);
    snprintf(key, sizeof key, "k%ld", number % keys);
    rd_kafka_header_add(headers, "outbox-key", -1, key, -1);
    rd_kafka_header_add(headers, "outbox-attempt", -1, "1", -1);
    snprintf(text, sizeof text, "%ld", number / keys + 1);
    rd_kafka_header_add(headers, "outbox-seq", -1, text, -1);
    rd_kafka_header_add(headers, "content-type", -1, "application/json", -1);
    return headers;
}

/* Waits for room where there is none. */
static void produce(rd_kafka_t *producer, const char *topic, long number, long keys, char *payload, size_t size)
{
    char key[24];
    int len = snprintf(key, sizeof key, "k%ld", number % keys);
    rd_kafka_headers_t *headers = make_headers(number, keys);
    for (;;) {
        rd_kafka_resp_err_t err = rd_kafka_producev(
            producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(key, (size_t)len), RD_KAFKA_V_VALUE(payload, size),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (!err)
            return;
        if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("a record was refused", rd_kafka_err2str(err));
        rd_kafka_poll(producer, 100);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage", "kafka_raw BROKERS TOPIC MESSAGES KEYS PAYLOAD_BYTES");
    long count = atol(argv[3]), keys = atol(argv[4]);
    size_t size = (size_t)atol(argv[5]);
    if (count < 1 || keys < 1)
        die("usage", "numbers begin at 1");
    char *payload = malloc(size + 1);
    if (!payload)
        die("memory", "there is none");
    memset(payload, 'x', size);
    double began = seconds_of(CLOCK_MONOTONIC);
    rd_kafka_t *producer = open_producer(argv[1]);
    for (long i = 0; i < count; i++) {
        produce(producer, argv[2], i, keys, payload, size);
        if (i % 100 == 0)
            rd_kafka_poll(producer, 0);
    }
    while (reported < count)
        rd_kafka_poll(producer, 100);
    double took = seconds_of(CLOCK_MONOTONIC) - began;
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"per_second\": %.1f, \"cpu_seconds\": %.6f}\n", count, took,
           (double)count / took, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    rd_kafka_destroy(producer);
    free(payload);
    return 0;
}
