/* producer.c - one librdkafka producer: created and served on the loop, shut down off the loop.
 *
 * librdkafka's threads write to an eventfd when there are events; its callbacks then run on the loop's thread, from within
 * ob_kafka_producer_serve. Shutting a producer down may block until its threads end, so it is done on libuv's pool; the
 * eventfd, and everything that librdkafka may still access, live until then. */
#include "sink/kafka/kafka_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WARM_US = 600 * 1000000 }; /* brokers forget a producer that was silent for a day, by default */

/* ---- what librdkafka calls --------------------------------------------------------------------------------------- */

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *report, void *opaque)
{
    (void)rk;
    (void)opaque;
    ob_kafka_reported(report->_private, report);
}

static void on_error(rd_kafka_t *rk, int err, const char *text, void *opaque)
{
    (void)rk;
    ob_kafka_troubled(opaque, (rd_kafka_resp_err_t)err, text);
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    const struct ob_kafka_producer *producer = rd_kafka_opaque(rk);
    const struct outbox_sink_host *host = producer->sink->host;
    char line[512];
    if (strcmp(facility, "CONFWARN") == 0)
        level = 7; /* it means settings that are ours */
    snprintf(line, sizeof line, "librdkafka: %s: %s", facility, text);
    host->log(host->ctx, level <= 4 ? OUTBOX_LOG_WARN : level <= 6 ? OUTBOX_LOG_INFO : OUTBOX_LOG_DEBUG, line);
}

/* ---- names of brokers --------------------------------------------------------------------------------------------- */

/* librdkafka's own resolver call blocks if name servers do not answer, and its threads are joined. Ours ends with the
 * producer. */

static void free_addresses(struct addrinfo *list)
{
    for (struct addrinfo *next; list; list = next) {
        next = list->ai_next;
        ob_free(list);
    }
}

/* Chained to *end. False: no memory. */
static bool add_address(const char *address, const char *service, struct addrinfo ***end)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *info = NULL;
    if (getaddrinfo(address, service, &hints, &info))
        return true; /* an address of a kind that we cannot dial */
    struct addrinfo *copy = ob_calloc(1, sizeof *copy + info->ai_addrlen);
    if (copy) {
        *copy = *info;
        copy->ai_canonname = NULL;
        copy->ai_next = NULL;
        copy->ai_addr = memcpy(copy + 1, info->ai_addr, info->ai_addrlen);
        **end = copy;
        *end = &copy->ai_next;
    }
    freeaddrinfo(info);
    return copy != NULL;
}

static int fill_addresses(const struct ob_addresses *found, const char *service, int family, struct addrinfo **list)
{
    struct addrinfo **end = list;
    bool enough = true;
    *list = NULL;
    for (size_t i = 0; enough && i < found->count; i++)
        if (family == AF_UNSPEC || (family == AF_INET6) == (strchr(found->text[i], ':') != NULL))
            enough = add_address(found->text[i], service, &end);
    if (enough && *list)
        return 0;
    free_addresses(*list);
    *list = NULL;
    return enough ? EAI_NONAME : EAI_MEMORY;
}

static int on_resolve(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list,
                      void *opaque)
{
    enum { STEP_US = 50000, STEPS = 200 };
    struct ob_kafka_producer *producer = opaque;
    struct ob_addresses found;
    if (!node) {
        free_addresses(*list);
        return 0;
    }
    struct ob_lookup *lookup = ob_lookup_start(node, NULL, NULL);
    if (!lookup)
        return EAI_MEMORY;
    bool finished = false;
    for (int i = 0; !finished && i < STEPS && !atomic_load(&producer->retired); i++)
        finished = ob_lookup_wait(lookup, STEP_US, &found);
    ob_lookup_free(lookup);
    if (!finished)
        return EAI_AGAIN;
    return found.error ? found.error : fill_addresses(&found, service, hints ? hints->ai_family : AF_UNSPEC, list);
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

void ob_kafka_producer_serve(struct ob_kafka_producer *producer)
{
    outbox_sink *sink = producer->sink;
    uint64_t count;
    if (read(producer->event_fd, &count, sizeof count) < 0)
        count = 0; /* somebody else was faster */
    while (rd_kafka_poll(producer->rk, 0) > 0)
        ;
    ob_kafka_replace_step(sink);
    ob_kafka_push(sink);
    ob_kafka_arm(sink);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ob_kafka_producer_serve(poll->data);
}

/* ---- topics ------------------------------------------------------------------------------------------------------- */

rd_kafka_topic_t *ob_kafka_producer_topic(struct ob_kafka_producer *producer, uint64_t hash, const char *name)
{
    rd_kafka_topic_t **place = &producer->topics[hash % OB_KAFKA_TOPICS];
    if (*place && strcmp(rd_kafka_topic_name(*place), name) == 0)
        return *place;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer->rk, name, NULL);
    if (topic && *place)
        rd_kafka_topic_destroy(*place);
    if (topic)
        *place = topic;
    return topic;
}

/* ---- where the broker heard it ----------------------------------------------------------------------------------- */

static uint64_t place_of(uint64_t topic, int32_t partition)
{
    uint64_t place = (topic ^ (uint64_t)(uint32_t)partition) * 0x9e3779b97f4a7c15u;
    return place ^ place >> 32;
}

void ob_kafka_producer_warm(struct ob_kafka_producer *producer, uint64_t topic, int32_t partition, int64_t now_us)
{
    uint64_t place = place_of(topic, partition);
    producer->warm[place % OB_KAFKA_WARM].place = place;
    producer->warm[place % OB_KAFKA_WARM].at_us = now_us;
}

bool ob_kafka_producer_is_warm(const struct ob_kafka_producer *producer, uint64_t topic, int32_t partition,
                               int64_t now_us)
{
    uint64_t place = place_of(topic, partition);
    return partition >= 0 && producer->warm[place % OB_KAFKA_WARM].place == place &&
           now_us - producer->warm[place % OB_KAFKA_WARM].at_us < WARM_US;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static void part_ended(struct ob_kafka_producer *producer)
{
    if (--producer->parts > 0)
        return;
    outbox_sink *sink = producer->sink;
    close(producer->event_fd);
    OB_LIST_EACH_SAFE (it, &producer->orphans)
        ob_free(OB_CONTAINER(it, struct ob_kafka_entry, node));
    ob_free(producer);
    ob_kafka_unref(sink);
}

static void end_work(uv_work_t *work)
{
    struct ob_kafka_producer *producer = work->data;
    rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(producer->queue);
    for (int i = 0; i < OB_KAFKA_TOPICS; i++)
        if (producer->topics[i])
            rd_kafka_topic_destroy(producer->topics[i]);
    rd_kafka_destroy(producer->rk);
}

static void end_worked(uv_work_t *work, int status)
{
    if (status < 0)
        end_work(work);
    part_ended(work->data);
}

static void poll_closed(uv_handle_t *handle)
{
    part_ended(handle->data);
}

static void end_if_unused(struct ob_kafka_producer *producer)
{
    if (!producer->retired || producer->uses > 0 || producer->ending)
        return;
    producer->ending = true;
    /* after close there is no host any more, but there still is the loop */
    if (uv_queue_work(producer->poll.loop, &producer->end, end_work, end_worked) != 0)
        end_worked(&producer->end, UV_ENOMEM);
}

void ob_kafka_producer_retire(struct ob_kafka_producer *producer)
{
    if (!producer || producer->retired)
        return;
    producer->retired = true;
    rd_kafka_purge(producer->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    uv_close((uv_handle_t *)&producer->poll, poll_closed);
    end_if_unused(producer);
}

void ob_kafka_producer_use(struct ob_kafka_producer *producer)
{
    producer->uses++;
}

void ob_kafka_producer_unuse(struct ob_kafka_producer *producer)
{
    producer->uses--;
    end_if_unused(producer);
}

static rd_kafka_t *producer_start(struct ob_kafka_producer *producer, struct outbox_error *err)
{
    char why[256] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(producer->sink->config.base);
    rd_kafka_conf_set_opaque(conf, producer);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_resolve_cb(conf, on_resolve);
    if (producer->batching == OB_KAFKA_SINGLE) {
        rd_kafka_conf_set(conf, "batch.num.messages", "1", why, sizeof why);
        rd_kafka_conf_set(conf, "linger.ms", "0", why, sizeof why);
        rd_kafka_conf_set(conf, "enable.gapless.guarantee", "false", why, sizeof why); /* nothing follows closely */
    }
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (rk)
        return rk;
    rd_kafka_conf_destroy(conf);
    ob_error_set(err, OUTBOX_INVALID, "librdkafka: %s", why);
    return NULL;
}

struct ob_kafka_producer *ob_kafka_producer_new(outbox_sink *sink, enum ob_kafka_batching batching,
                                                struct outbox_error *err)
{
    static const uint64_t one = 1;
    struct ob_kafka_producer *producer = ob_calloc(1, sizeof *producer);
    if (!producer) {
        ob_error_nomem(err);
        return NULL;
    }
    producer->sink = sink;
    producer->batching = batching;
    producer->parts = 2;
    producer->poll.data = producer->end.data = producer;
    ob_list_init(&producer->orphans);
    producer->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    producer->rk = producer->event_fd >= 0 ? producer_start(producer, err) : NULL;
    if (producer->event_fd < 0)
        ob_error_set(err, OUTBOX_NOMEM, "no file descriptor left");
    int failed = producer->rk ? uv_poll_init(sink->host->loop, &producer->poll, producer->event_fd) : 0;
    if (failed)
        ob_error_set(err, OUTBOX_INTERNAL, "cannot receive events from librdkafka: %s", uv_strerror(failed));
    if (!producer->rk || failed) {
        if (producer->rk)
            rd_kafka_destroy(producer->rk);
        if (producer->event_fd >= 0)
            close(producer->event_fd);
        ob_free(producer);
        return NULL;
    }
    producer->queue = rd_kafka_queue_get_main(producer->rk);
    rd_kafka_set_log_queue(producer->rk, NULL);
    rd_kafka_queue_io_event_enable(producer->queue, producer->event_fd, &one, sizeof one);
    uv_poll_start(&producer->poll, UV_READABLE, on_readable);
    if (write(producer->event_fd, &one, sizeof one) < 0) /* only an empty queue rings: look at what is there already */
        ob_kafka_arm(sink);
    sink->refs++;
    return producer;
}
