/* redis_int.h - shared by the files of the Redis sink; see redis.c. */
#ifndef OB_SINK_BROKER_REDIS_REDIS_INT_H
#define OB_SINK_BROKER_REDIS_REDIS_INT_H

#include "sink/broker/broker.h"
#include "sink/broker/redis/resp_guard.h"
#include "sink/broker/url.h"

#include <hiredis/hiredis.h>

enum ob_redis_dedupe { OB_REDIS_NONE, OB_REDIS_IDMP, OB_REDIS_AUTO };

struct ob_redis {
    struct ob_broker *broker;
    struct ob_broker_url url;
    const char *username, *password, *field, *producer, *path;
    int64_t db, maxlen, replicas, wait_us;
    bool exact, create, by_seq;
    enum ob_redis_dedupe dedupe;
    /* the connection */
    redisContext *context;
    struct ob_resp_guard guard; /* checks bytes before the context's reader gets them */
    struct ob_list expected;    /* the commands whose replies are outstanding, in order */
    bool idmp;                  /* this server supports it */
    struct ob_broker_url moved; /* where the cluster redirected us; host "": it did not */
    char place[OB_PLACE];       /* where we are connected, or tried to connect */
};

/* The verdict for an error reply, by its first word. */
void ob_redis_verdict(struct ob_verdict *verdict, const char *error, size_t len, bool one_address);
/* Opens a non-blocking connection. On failure it fills the verdict and returns false. */
bool ob_redis_open(struct ob_redis *redis, const struct ob_broker_url *to, struct ob_verdict *verdict);
/* Sets the largest size of a reply from now on. */
void ob_redis_expect(struct ob_redis *redis, size_t bytes);
/* Passes received bytes to the reader. Returns NULL, or why the connection cannot be read any more. */
const char *ob_redis_read(struct ob_redis *redis);
/* Makes the connection ready: user, database, version. */
bool ob_redis_handshake(struct ob_redis *redis, struct ob_verdict *verdict);

#endif
