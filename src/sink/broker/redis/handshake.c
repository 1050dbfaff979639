/* handshake.c - the commands sent to Redis before the first message. Waits for each reply. */
#include "sink/broker/redis/redis_int.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDMP_SINCE = 8 * 100 + 6 };

/* Waits for the reply, within what is left of the time. NULL after it filled the verdict. */
static redisReply *ask(struct ob_redis *redis, struct ob_verdict *verdict, int argc, const char **argv)
{
    redisContext *context = redis->context;
    void *reply = NULL;
    const char *why = NULL;
    char text[200];
    int done = 0;
    bool in_time = true;
    assert(context);
    if (redisAppendCommandArgv(context, argc, argv, NULL) != REDIS_OK) {
        ob_verdict_shortage(verdict);
        return NULL;
    }
    while (in_time && !why && !reply) {
        if (!done && redisBufferWrite(context, &done) != REDIS_OK)
            why = context->errstr;
        else if (redisGetReplyFromReader(context, &reply) != REDIS_OK)
            why = context->errstr;
        else if (!reply && (in_time = ob_broker_wait(redis->broker, context->fd, done ? POLLIN : POLLIN | POLLOUT)))
            why = ob_redis_read(redis);
    }
    if (why && redisGetReplyFromReader(context, &reply) == REDIS_OK && reply)
        return reply; /* what it sent before it closed the connection */
    if (reply)
        return reply;
    if (!why) {
        ob_verdict_silent(redis->broker, verdict, redis->place);
        return NULL;
    }
    snprintf(text, sizeof text, "%s: %s", argv[0], why);
    ob_verdict_unreachable(verdict, "redis", redis->place, text);
    return NULL;
}

static redisReply *command(struct ob_redis *redis, struct ob_verdict *verdict, int argc, const char **argv)
{
    redisReply *reply = ask(redis, verdict, argc, argv);
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return reply;
    ob_redis_verdict(verdict, reply->str, (size_t)reply->len, true);
    freeReplyObject(reply);
    return NULL;
}

/* It says so in place of any answer, and closes. */
static bool is_full(const struct ob_verdict *verdict)
{
    return strncmp(verdict->text, "ERR max number of clients", 25) == 0;
}

/* An error without a name, in answer to what only the settings can have wrong. */
static void blame_settings(struct ob_verdict *verdict)
{
    if (strcmp(verdict->code, "redis_err") != 0)
        return;
    verdict->outcome = is_full(verdict) ? OUTBOX_SINK_RETRY : OUTBOX_SINK_BLOCKED;
    verdict->unreachable = is_full(verdict);
    verdict->scope = OUTBOX_SCOPE_SINK;
}

static bool log_in(struct ob_redis *redis, struct ob_verdict *verdict)
{
    const char *argv[3] = {"AUTH"};
    int argc = 1;
    if (!redis->password)
        return true;
    if (redis->username)
        argv[argc++] = redis->username;
    argv[argc++] = redis->password;
    redisReply *reply = command(redis, verdict, argc, argv);
    if (!reply)
        blame_settings(verdict); /* so say old servers that the password is wrong */
    bool known = reply != NULL;
    freeReplyObject(reply);
    return known;
}

/* INFO may be forbidden to us: then we assume that the server does not support it. False: the connection is lost. */
static bool look_for_idmp(struct ob_redis *redis, struct ob_verdict *verdict)
{
    const char *info[] = {"INFO", "server"};
    redisReply *reply = ask(redis, verdict, 2, info);
    if (!reply)
        return false;
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "redis_version:") : NULL;
    char *dot = NULL;
    long major = at ? strtol(at + strlen("redis_version:"), &dot, 10) : 0;
    long minor = dot && *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;
    redis->idmp = major * 100 + minor >= IDMP_SINCE;
    freeReplyObject(reply);
    return true;
}

bool ob_redis_handshake(struct ob_redis *redis, struct ob_verdict *verdict)
{
    char db[24];
    snprintf(db, sizeof db, "%lld", (long long)redis->db);
    const char *select[] = {"SELECT", db}, *ping[] = {"PING"};
    if (!log_in(redis, verdict))
        return false;
    redisReply *reply = redis->db ? command(redis, verdict, 2, select) : command(redis, verdict, 1, ping);
    if (!reply)
        blame_settings(verdict); /* no such database */
    /* A user who may only run XADD is fine. */
    bool ready = reply || (!redis->db && strcmp(verdict->code, "redis_noperm") == 0);
    freeReplyObject(reply);
    /* Redis allows it only where it gives the id itself. */
    redis->idmp = !redis->by_seq && redis->dedupe == OB_REDIS_IDMP;
    bool asks = !redis->by_seq && redis->dedupe == OB_REDIS_AUTO;
    return ready && (!asks || look_for_idmp(redis, verdict));
}
