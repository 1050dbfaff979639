/* redis_greet.c - what is said to Redis before the first message. Waits for each reply. */
#include "sink/redis_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDMP_SINCE = 8 * 100 + 6 };

void ob_redis_rule_connect(const struct ob_redis *redis, struct ob_ruling *ruling, const char *what)
{
    const redisContext *context = redis->context;
    char why[200];
    if (!context || context->err == REDIS_ERR_OOM) {
        ob_ruling_shortage(ruling);
        return;
    }
    snprintf(why, sizeof why, "%s%s%s", what ? what : "", what ? ": " : "", context->errstr);
    if (context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT))
        ob_ruling_silent(redis->courier, ruling, redis->place);
    else
        ob_ruling_unreachable(ruling, "redis", redis->place, why);
}

/* Of what is left of the time. */
static redisReply *ask(struct ob_redis *redis, int argc, const char **argv)
{
    int64_t us = ob_courier_left_us(redis->courier);
    struct timeval tv = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    return redisSetTimeout(redis->context, tv) == REDIS_OK ? redisCommandArgv(redis->context, argc, argv, NULL) : NULL;
}

static redisReply *say(struct ob_redis *redis, struct ob_ruling *ruling, int argc, const char **argv)
{
    redisReply *reply = ask(redis, argc, argv);
    if (!reply) {
        ob_redis_rule_connect(redis, ruling, argv[0]);
        return NULL;
    }
    if (reply->type != REDIS_REPLY_ERROR)
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

/* INFO may be forbidden to us: then there is no such thing, as far as we know. */
static bool look_for_idmp(struct ob_redis *redis, struct ob_ruling *ruling)
{
    const char *info[] = {"INFO", "server"};
    redisReply *reply = ask(redis, 2, info);
    if (!reply)
        ob_redis_rule_connect(redis, ruling, "INFO");
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "redis_version:") : NULL;
    char *dot = NULL;
    long major = at ? strtol(at + strlen("redis_version:"), &dot, 10) : 0;
    long minor = dot && *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;
    bool found = major * 100 + minor >= IDMP_SINCE;
    freeReplyObject(reply);
    return found;
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
    redis->idmp = ready && !redis->by_seq &&
                  (redis->dedupe == OB_REDIS_IDMP || (redis->dedupe == OB_REDIS_AUTO && look_for_idmp(redis, ruling)));
    return ready && !redis->context->err;
}
