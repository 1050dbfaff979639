/* redis.c - the Redis sink: XADD to a stream, over one connection, pipelined. The entry's id is the proof.
 *
 * An entry has our headers and the message's as fields, and the payload in the field `data`.
 *
 * Duplicates: when a connection breaks, the messages in flight are unknown and are sent again. Redis 8.6 and later detects
 * them by the message's id (IDMP), and chooses the entry's id itself. With `entry_id: seq` the entry's id is the message's
 * number within its key: then the stream itself refuses a duplicate, in any version, and we check whether the existing entry
 * is ours. That needs a stream per key. Otherwise the receiver has outbox-id.
 *
 * Replies come in the order of the commands; `expected` says what each is for. Any error of the connection ends it.
 *
 * Thread: the broker thread's, except for redis_check and open. */
#include "sink/broker/redis/redis_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct outbox_sink_ops ob_sink_redis;

enum what { ADDED, WAITED, LOOKED };
enum { STAGE_SENT, STAGE_ADDED, MOST_HOPS = 5, VALUE_MOST = 512 * 1024 * 1024 };

struct expect {
    struct ob_list node;
    enum what what;
    struct ob_broker_job *job;
};

static const struct ob_wire wire = {.prefix = "ce_", .content_type = "content-type"};

/* ---- commands ---- */

static bool append(struct ob_redis *redis, enum what what, struct ob_broker_job *job, int argc, const char **argv,
                   const size_t *lens)
{
    struct expect *expect = ob_calloc(1, sizeof *expect);
    if (!expect || redisAppendCommandArgv(redis->context, argc, argv, lens) != REDIS_OK) {
        ob_free(expect);
        return false;
    }
    expect->what = what;
    expect->job = job;
    ob_list_push(&redis->expected, &expect->node);
    return true;
}

static void entry_id(const struct ob_redis *redis, const struct ob_broker_job *job, char text[40])
{
    if (redis->by_seq && job->keyed)
        snprintf(text, 40, "%" PRId64 "-0", job->seq);
    else
        snprintf(text, 40, "*");
}

static int put(const char **argv, size_t *lens, int n, const char *text)
{
    argv[n] = text;
    lens[n] = strlen(text);
    return n + 1;
}

static void redis_send(void *self, struct ob_broker_job *job)
{
    struct ob_redis *redis = self;
    const struct ob_headers *headers = &job->headers;
    size_t most = 16 + 2 * headers->count;
    const char **argv = ob_calloc(most, sizeof *argv);
    size_t *lens = ob_calloc(most, sizeof *lens);
    char id[40], maxlen[24];
    int n = 0;
    bool sent = false;
    if (!argv || !lens)
        goto done;
    n = put(argv, lens, n, "XADD");
    n = put(argv, lens, n, ob_buf_text(&job->address));
    lens[n - 1] = job->address.len;
    if (!redis->create)
        n = put(argv, lens, n, "NOMKSTREAM");
    if (redis->idmp) {
        n = put(argv, lens, n, "IDMP");
        n = put(argv, lens, n, redis->producer);
        n = put(argv, lens, n, job->id);
    }
    if (redis->maxlen) {
        snprintf(maxlen, sizeof maxlen, "%" PRId64, redis->maxlen);
        n = put(argv, lens, n, "MAXLEN");
        n = put(argv, lens, n, redis->exact ? "=" : "~");
        n = put(argv, lens, n, maxlen);
    }
    entry_id(redis, job, id);
    n = put(argv, lens, n, id);
    for (size_t i = 0; i < headers->count; i++) {
        if (strcmp(headers->at[i].name, redis->field) == 0)
            continue; /* the payload's own name */
        n = put(argv, lens, n, headers->at[i].name);
        n = put(argv, lens, n, headers->at[i].value);
    }
    n = put(argv, lens, n, redis->field);
    argv[n] = ob_buf_text(&job->body);
    lens[n++] = job->body.len;
    job->stage = STAGE_SENT;
    sent = append(redis, ADDED, job, n, argv, lens);
done:
    ob_free(argv);
    ob_free(lens);
    if (sent)
        return;
    ob_verdict_shortage(&job->verdict);
    ob_broker_job_end(redis->broker, job);
}

/* One WAIT for all that was just written. */
static void ask_wait(struct ob_redis *redis)
{
    char replicas[24], ms[24];
    snprintf(replicas, sizeof replicas, "%" PRId64, redis->replicas);
    snprintf(ms, sizeof ms, "%" PRId64, redis->wait_us / 1000);
    const char *argv[] = {"WAIT", replicas, ms};
    size_t lens[] = {4, strlen(replicas), strlen(ms)};
    if (!append(redis, WAITED, NULL, 3, argv, lens))
        ob_broker_lost(redis->broker, "memory", "out of memory");
}

static void write_out(struct ob_redis *redis)
{
    int done = 0;
    if (redisBufferWrite(redis->context, &done) != REDIS_OK)
        ob_broker_lost(redis->broker, "lost", "writing to Redis: %s", redis->context->errstr);
}

static void redis_flush(void *self)
{
    struct ob_redis *redis = self;
    if (redis->replicas)
        ask_wait(redis);
    write_out(redis);
}

/* ---- replies ---- */

/* "MOVED 1234 host:port"; an empty host is the one we know. */
static bool follow(struct ob_redis *redis, const redisReply *reply, struct ob_broker_job *job)
{
    struct ob_broker_url to = redis->url;
    char place[300];
    const char *colon;
    char *end;
    if (strncmp(reply->str, "MOVED ", 6) != 0 || job->tries >= MOST_HOPS ||
        sscanf(reply->str, "MOVED %*d %299s", place) != 1 || !(colon = strrchr(place, ':')))
        return false;
    if (colon > place)
        snprintf(to.host, sizeof to.host, "%.*s", (int)(colon - place), place);
    long port = strtol(colon + 1, &end, 10);
    if (*end || port < 1 || port > 65535)
        return false;
    to.port = (int)port;
    redis->moved = to;
    ob_broker_job_again(redis->broker, job);
    ob_broker_drain(redis->broker);
    return true;
}

/* As it comes back in an entry, with some room for what Redis says around each value. */
static size_t job_size(const struct ob_broker_job *job)
{
    size_t size = job->body.len;
    for (size_t i = 0; i < job->headers.count; i++)
        size += strlen(job->headers.at[i].name) + strlen(job->headers.at[i].value) + 64;
    return size;
}

static void entry_ask(struct ob_redis *redis, struct ob_broker_job *job)
{
    char id[40];
    entry_id(redis, job, id);
    const char *argv[] = {"XRANGE", ob_buf_text(&job->address), id, id};
    size_t lens[] = {6, job->address.len, strlen(id), strlen(id)};
    ob_redis_expect(redis, job_size(job));
    if (append(redis, LOOKED, job, 4, argv, lens))
        write_out(redis);
    else
        ob_broker_lost(redis->broker, "memory", "out of memory");
}

static void refused(struct ob_redis *redis, struct ob_broker_job *job, const redisReply *reply)
{
    if (follow(redis, reply, job))
        return;
    ob_redis_verdict(&job->verdict, reply->str, reply->len, redis->broker->one_address);
    if (strcmp(job->verdict.code, "redis_err") == 0 && redis->by_seq && job->keyed) {
        entry_ask(redis, job); /* perhaps the id is taken, or it is too late for it */
        return;
    }
    if (strcmp(job->verdict.code, "redis_readonly") == 0) {
        redis->moved.host[0] = '\0';
        ob_broker_drain(redis->broker); /* the name may stand for another server by now */
    }
    ob_broker_job_end(redis->broker, job);
}

static void added(struct ob_redis *redis, struct ob_broker_job *job, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(redis, job, reply);
    } else if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS) {
        ob_verdict_set(&job->verdict, OUTBOX_SINK_BLOCKED, "redis", "no_stream",
                       "the stream does not exist, and create is off");
        if (!redis->broker->one_address)
            job->verdict.scope = OUTBOX_SCOPE_MESSAGE;
        ob_broker_job_end(redis->broker, job);
    } else if (redis->replicas) {
        job->stage = STAGE_ADDED;
        snprintf(job->verdict.reference, sizeof job->verdict.reference, "%.*s", (int)reply->len, reply->str);
    } else {
        ob_broker_job_accepted(redis->broker, job, reply->str, NULL);
    }
}

/* The reply to a command after XADD is an error, but the message itself may be in the stream. */
static void verdict_of_later(const struct ob_redis *redis, struct ob_broker_job *job, const redisReply *reply,
                             const char *before)
{
    int len = (int)(reply->len < 200 ? reply->len : 200);
    ob_redis_verdict(&job->verdict, reply->str, reply->len, redis->broker->one_address);
    if (job->verdict.outcome == OUTBOX_SINK_RETRY)
        job->verdict.outcome = OUTBOX_SINK_UNKNOWN;
    snprintf(job->verdict.text, sizeof job->verdict.text, "%s: %.*s", before, len, reply->str);
}

static void verdict_of_wait(const struct ob_redis *redis, struct ob_broker_job *job, const redisReply *reply)
{
    char reference[160], before[240];
    snprintf(reference, sizeof reference, "%s", job->verdict.reference);
    if (reply->type != REDIS_REPLY_ERROR) {
        ob_verdict_set(&job->verdict, OUTBOX_SINK_UNKNOWN, "redis", "wait",
                       "%s is on the master, but only %lld of %" PRId64 " replicas have it", reference, reply->integer,
                       redis->replicas);
        return;
    }
    snprintf(before, sizeof before, "%s is on the master, but WAIT failed", reference);
    verdict_of_later(redis, job, reply, before);
    if (strcmp(job->verdict.code, "redis_err") == 0) /* it has no such command, or is itself a replica */
        job->verdict.outcome = OUTBOX_SINK_BLOCKED;
    job->verdict.scope = OUTBOX_SCOPE_SINK;
}

/* Whatever was added before the WAIT. */
static void waited(struct ob_redis *redis, const redisReply *reply)
{
    bool enough = reply->type == REDIS_REPLY_INTEGER && reply->integer >= redis->replicas;
    OB_LIST_EACH_SAFE (it, &redis->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        char reference[160];
        if (job->stage != STAGE_ADDED)
            continue;
        if (enough) {
            snprintf(reference, sizeof reference, "%s", job->verdict.reference);
            ob_broker_job_accepted(redis->broker, job, reference, NULL);
        } else {
            verdict_of_wait(redis, job, reply);
            ob_broker_job_end(redis->broker, job);
        }
    }
}

/* [[id, [field, value, ...]]] */
static bool is_ours(const redisReply *reply, const char *id)
{
    const redisReply *entry = reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 ? reply->element[0] : NULL;
    const redisReply *fields =
        entry && entry->type == REDIS_REPLY_ARRAY && entry->elements == 2 ? entry->element[1] : NULL;
    for (size_t i = 0; fields && fields->type == REDIS_REPLY_ARRAY && i + 1 < fields->elements; i += 2)
        if (fields->element[i]->str && strcmp(fields->element[i]->str, "outbox-id") == 0)
            return fields->element[i + 1]->str && strcmp(fields->element[i + 1]->str, id) == 0;
    return false;
}

/* The verdict is still that of XADD: it stands when the message is not there and the id was not the reason. */
static void entry_read(struct ob_redis *redis, struct ob_broker_job *job, const redisReply *reply)
{
    char id[40];
    entry_id(redis, job, id);
    if (is_ours(reply, job->id)) {
        ob_broker_job_accepted(redis->broker, job, id, "already in the stream");
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        verdict_of_later(redis, job, reply, "XRANGE, to see whether the stream has it already");
    else if (reply->type != REDIS_REPLY_ARRAY)
        ob_verdict_set(&job->verdict, OUTBOX_SINK_UNKNOWN, "redis", "protocol", "unexpected answer to XRANGE");
    else if (strstr(job->verdict.text, "equal or smaller"))
        ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, "redis", "id_taken",
                       "the stream is past %s without this message: another producer writes to it, or it was trimmed",
                       id);
    ob_broker_job_end(redis->broker, job);
}

/* False at the end of what has come. */
static bool read_one(struct ob_redis *redis)
{
    void *got = NULL;
    struct ob_list *node;
    if (redisGetReplyFromReader(redis->context, &got) != REDIS_OK) {
        ob_broker_lost(redis->broker, "protocol", "reading from Redis: %s", redis->context->errstr);
        return false;
    }
    if (!got)
        return false;
    node = ob_list_shift(&redis->expected);
    if (!node) {
        freeReplyObject(got);
        ob_broker_lost(redis->broker, "protocol", "unexpected message from Redis");
        return false;
    }
    struct expect *expect = OB_CONTAINER(node, struct expect, node);
    switch (expect->what) {
    case ADDED: added(redis, expect->job, got); break;
    case WAITED: waited(redis, got); break;
    case LOOKED: entry_read(redis, expect->job, got); break;
    }
    ob_free(expect);
    freeReplyObject(got);
    return !redis->broker->lost;
}

static void redis_serve(void *self, short revents)
{
    struct ob_redis *redis = self;
    if (revents & POLLOUT)
        write_out(redis);
    if (!(revents & (POLLIN | POLLHUP | POLLERR)))
        return;
    /* What came before the end still counts. */
    const char *why = ob_redis_read(redis);
    while (read_one(redis))
        ;
    if (why)
        ob_broker_lost(redis->broker, redis->guard.why ? "protocol" : "lost", "reading from Redis: %s", why);
}

static int redis_fd(void *self, short *events)
{
    const struct ob_redis *redis = self;
    *events = POLLIN;
    if (sdslen(redis->context->obuf))
        *events |= POLLOUT;
    return redis->context->fd;
}

/* ---- the connection ---- */

static void redis_disconnect(void *self)
{
    struct ob_redis *redis = self;
    struct ob_list *node;
    while ((node = ob_list_shift(&redis->expected)))
        ob_free(OB_CONTAINER(node, struct expect, node));
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
}

static bool redis_connect(void *self, struct ob_verdict *verdict)
{
    struct ob_redis *redis = self;
    const struct ob_broker_url *to = redis->moved.host[0] ? &redis->moved : &redis->url;
    if (redis->path)
        snprintf(redis->place, sizeof redis->place, "%s", redis->path);
    else
        ob_broker_url_place(to, redis->place);
    if (ob_redis_open(redis, to, verdict) && ob_redis_handshake(redis, verdict))
        return true;
    redis->moved.host[0] = '\0';
    redis_disconnect(redis);
    return false;
}

static void redis_ping(void *self, struct ob_verdict *verdict)
{
    const struct ob_redis *redis = self;
    snprintf(verdict->text, sizeof verdict->text, "connected to %s%s", redis->path ? redis->path : redis->url.host,
             redis->idmp ? ", which drops duplicates" : "");
}

static bool redis_check(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict)
{
    const struct ob_redis *redis = self;
    if (!job->address.len) {
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "redis", "address", "the stream name is empty");
        return false;
    }
    if (redis->by_seq && !job->keyed) {
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "redis", "no_key", "entry_id is seq, but the message has no key");
        return false;
    }
    if (job->body.len > VALUE_MOST) {
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "redis", "too_large", "a value of Redis has at most 512 MB");
        return false;
    }
    return true;
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .required = true,
     .doc = "server URL: `redis://host:port/db` or `unix:///path/of.sock`; TLS "
            "needs a proxy such as stunnel"},
    {"username", OUTBOX_OPTION_TEXT, .doc = "ACL user name; without it, `password` is the server's (`requirepass`)"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "for AUTH"},
    {"db", OUTBOX_OPTION_INT, .least = 0, .most = 65535, .fallback = "0", .doc = "database number, if not in url"},
    {"stream", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}", .doc = "stream key: a text or a template"},
    {"field", OUTBOX_OPTION_TEXT, .fallback = "data", .doc = "field of the entry that holds the payload"},
    {"create", OUTBOX_OPTION_BOOL, .fallback = "true", .doc = "create a missing stream (off requires Redis 6.2)"},
    {"maxlen", OUTBOX_OPTION_INT, .fallback = "0", .least = 0, .most = INT64_MAX,
     .doc = "trim the stream to this many entries; 0: never"},
    {"maxlen_exact", OUTBOX_OPTION_BOOL, .fallback = "false", .doc = "trim to exactly maxlen, which costs more"},
    {"entry_id", OUTBOX_OPTION_ENUM, .choices = "auto seq", .fallback = "auto",
     .doc = "`seq`: the entry id is the message's position within its key, so that it cannot be added twice; needs "
            "one stream per key"},
    {"dedupe", OUTBOX_OPTION_ENUM, .choices = "auto idmp none", .fallback = "auto",
     .doc = "deduplication by IDMP, if the server supports it (8.6) and `entry_id` is `auto`; raise its limits with "
            "XCFGSET"},
    {"producer", OUTBOX_OPTION_TEXT, .fallback = "outbox", .doc = "producer name for IDMP"},
    {"wait_replicas", OUTBOX_OPTION_INT, .fallback = "0", .least = 0, .most = 1000,
     .doc = "replicas that must have the message before it counts as accepted (WAIT)"},
    {"wait_timeout", OUTBOX_OPTION_DURATION, .fallback = "1s", .least = 1000, .most = 3600000000,
     .doc = "time limit for wait_replicas, below `ack_timeout`; after it the outcome is unknown"},
    OB_BROKER_SETTINGS,
    OB_RENDER_SETTINGS,
    {NULL},
};

static enum outbox_code read_place(struct ob_redis *redis, const struct ob_options *options, struct outbox_error *err)
{
    const char *url = ob_option_string(options, "url");
    if (strncmp(url, "rediss://", 9) == 0)
        return ob_error_set(err, OUTBOX_INVALID,
                            "this build has no TLS for Redis: put a proxy such as stunnel in front of the server and "
                            "use redis://");
    if (strncmp(url, "unix://", 7) == 0) {
        redis->path = ob_arena_strdup(&redis->broker->arena, url + 7);
        return redis->path ? OUTBOX_OK : ob_error_nomem(err);
    }
    enum outbox_code code = ob_broker_url_parse(&redis->url, url, "redis unix", 6379, err);
    char *end;
    if (!code && redis->url.has_path) {
        redis->db = strtoll(redis->url.path, &end, 10);
        if (*end || redis->db < 0)
            code = ob_error_set(err, OUTBOX_INVALID, "the path of url must be a database number");
    }
    return code;
}

static enum outbox_code read_settings(void *self, struct ob_broker *broker, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct ob_redis *redis = self;
    bool failed = false;
    redis->broker = broker;
    ob_list_init(&redis->expected);
    redis->username = ob_broker_keep(broker, options, "username", &failed);
    redis->password = ob_broker_keep(broker, options, "password", &failed);
    redis->field = ob_broker_keep(broker, options, "field", &failed);
    redis->producer = ob_broker_keep(broker, options, "producer", &failed);
    redis->db = ob_option_int(options, "db");
    redis->maxlen = ob_option_int(options, "maxlen");
    redis->exact = ob_option_bool(options, "maxlen_exact");
    redis->create = ob_option_bool(options, "create");
    redis->by_seq = ob_option_is(options, "entry_id", "seq");
    redis->replicas = ob_option_int(options, "wait_replicas");
    redis->wait_us = ob_option_int(options, "wait_timeout");
    const char *dedupe = ob_option_string(options, "dedupe");
    redis->dedupe = strcmp(dedupe, "idmp") == 0   ? OB_REDIS_IDMP
                    : strcmp(dedupe, "none") == 0 ? OB_REDIS_NONE
                                                  : OB_REDIS_AUTO;
    enum outbox_code code = read_place(redis, options, err);
    if (!code && failed)
        code = ob_error_nomem(err);
    if (!code && (!redis->field || !redis->producer))
        code = ob_error_set(err, OUTBOX_INVALID, "field and producer must not be empty");
    if (!code && redis->username && !redis->password)
        code = ob_error_set(err, OUTBOX_INVALID, "username needs a password");
    if (!code && redis->replicas && redis->wait_us >= broker->ack_timeout_us)
        code = ob_error_set(err, OUTBOX_INVALID, "wait_timeout must be shorter than ack_timeout");
    return code;
}

static const struct ob_broker_driver driver = {
    .size = sizeof(struct ob_redis),
    .settings = settings,
    .open = read_settings,
    .prefix = "redis",
    .wire = &wire,
    .address = "stream",
    .check = redis_check,
    .connect = redis_connect,
    .disconnect = redis_disconnect,
    .fd = redis_fd,
    .send = redis_send,
    .flush = redis_flush,
    .serve = redis_serve,
    .ping = redis_ping,
};

static enum outbox_code redis_open(const struct outbox_sink_option *options, size_t count,
                                   const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_broker_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_redis = {
    OB_BROKER_OPS,       .kind = "redis",      .also = "redis-streams redis_streams redis-stream valkey",
    .open = redis_open,  .settings = settings, .summary = "adds to Redis Streams",
    .protocol = "redis", .peer = "url",        .destination = "stream",
};
