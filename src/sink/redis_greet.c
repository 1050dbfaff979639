/* redis_greet.c - what is said to Redis before the first message. Waits for each reply. */
#include "sink/redis_int.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDMP_SINCE = 8 * 100 + 6 };

/* Waits for the reply, within what is left of the time. NULL after it filled the ruling. */
static redisReply *ask(struct ob_redis *redis, struct ob_ruling *ruling, int argc, const char **argv)
{
    redisContext *context = redis->context;
    void *reply = NULL;
    const char *why = NULL;
    char text[200];
    int done = 0;
    bool in_time = true;
    if (redisAppendCommandArgv(context, argc, argv, NULL) != REDIS_OK) {
        ob_ruling_shortage(ruling);
        return NULL;
    }
    while (in_time && !why && !reply) {
        if (!done && redisBufferWrite(context, &done) != REDIS_OK)
            why = context->errstr;
        else if (redisGetReplyFromReader(context, &reply) != REDIS_OK)
            why = context->errstr;
        else if (!reply && (in_time = ob_courier_wait(redis->courier, context->fd, done ? POLLIN : POLLIN | POLLOUT)))
            why = ob_redis_read(redis);
    }
    if (why && redisGetReplyFromReader(context, &reply) == REDIS_OK && reply)
        return reply; /* what it said before it hung up */
    if (reply)
        return reply;
    if (!why) {
        ob_ruling_silent(redis->courier, ruling, redis->place);
        return NULL;
    }
    snprintf(text, sizeof text, "%s: %s", argv[0], why);
    ob_ruling_unreachable(ruling, "redis", redis->place, text);
    return NULL;
}

static redisReply *say(struct ob_redis *redis, struct ob_ruling *ruling, int argc, const char **argv)
{
    redisReply *reply = ask(redis, ruling, argc, argv);
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return reply;
    ob_redis_rule(ruling, reply->str, (size_t)reply->len, true);
    freeReplyObject(reply);
    return NULL;
}

/* It says so in place of any answer, and closes. */
static bool is_full(const struct ob_ruling *ruling)
{
    return strncmp(ruling->text, "ERR max number of clients", 25) == 0;
}

/* An error without a name, in answer to what only the settings can have wrong. */
static void blame_settings(struct ob_ruling *ruling)
{
    if (strcmp(ruling->code, "redis_err") != 0)
        return;
    ruling->outcome = is_full(ruling) ? OUTBOX_SINK_RETRY : OUTBOX_SINK_BLOCKED;
    ruling->unreachable = is_full(ruling);
    ruling->scope = OUTBOX_SCOPE_DESTINATION;
}

static bool log_in(struct ob_redis *redis, struct ob_ruling *ruling)
{
    const char *argv[3] = {"AUTH"};
    int argc = 1;
    if (!redis->password)
        return true;
    if (redis->username)
        argv[argc++] = redis->username;
    argv[argc++] = redis->password;
    redisReply *reply = say(redis, ruling, argc, argv);
    if (!reply)
        blame_settings(ruling); /* so say old servers that the password is wrong */
    bool known = reply != NULL;
    freeReplyObject(reply);
    return known;
}

/* INFO may be forbidden to us: then there is no such thing, as far as we know. False: there is no connection any more. */
static bool look_for_idmp(struct ob_redis *redis, struct ob_ruling *ruling)
{
    const char *info[] = {"INFO", "server"};
    redisReply *reply = ask(redis, ruling, 2, info);
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

bool ob_redis_greet(struct ob_redis *redis, struct ob_ruling *ruling)
{
    char db[24];
    snprintf(db, sizeof db, "%lld", (long long)redis->db);
    const char *select[] = {"SELECT", db}, *ping[] = {"PING"};
    if (!log_in(redis, ruling))
        return false;
    redisReply *reply = redis->db ? say(redis, ruling, 2, select) : say(redis, ruling, 1, ping);
    if (!reply)
        blame_settings(ruling); /* no such database */
    /* A user who may do nothing but XADD is a good user. */
    bool ready = reply || (!redis->db && strcmp(ruling->code, "redis_noperm") == 0);
    freeReplyObject(reply);
    /* Redis allows it only where it gives the id itself. */
    redis->idmp = !redis->by_seq && redis->dedupe == OB_REDIS_IDMP;
    bool asks = !redis->by_seq && redis->dedupe == OB_REDIS_AUTO;
    return ready && (!asks || look_for_idmp(redis, ruling));
}
