/* redis_int.h - between the files of the Redis sink; see redis.c. */
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
    struct ob_resp_guard guard; /* before the context's reader */
    struct ob_list expected;    /* what the replies to come are for, in order */
    bool idmp;                  /* this server has it */
    struct ob_broker_url moved; /* where the cluster sends us; host "" for nowhere */
    char place[OB_PLACE];       /* where we are, or tried to be */
};

/* What an error reply means, by its first word. */
void ob_redis_verdict(struct ob_verdict *verdict, const char *error, size_t len, bool one_address);
/* A connection that does not wait. False after it filled the verdict. */
bool ob_redis_open(struct ob_redis *redis, const struct ob_broker_url *to, struct ob_verdict *verdict);
/* Replies may be as long as this from now on. */
void ob_redis_expect(struct ob_redis *redis, size_t bytes);
/* Gives what has come to the reader. NULL, or why there will be no more. */
const char *ob_redis_read(struct ob_redis *redis);
/* Makes the connection ready: user, database, version. */
bool ob_redis_handshake(struct ob_redis *redis, struct ob_verdict *verdict);

#endif
