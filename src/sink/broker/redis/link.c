/* link.c - the connection to Redis: opened and read by us, because hiredis blocks on name resolution and trusts any length. */
#include "sink/broker/redis/redis_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { READ = 16384, TURNS = 16, REPLY_MOST = 65536 };

static bool lacks_memory(struct ob_verdict *verdict)
{
    ob_verdict_shortage(verdict);
    return false;
}

static bool open_path(struct ob_redis *redis, struct ob_verdict *verdict)
{
    int64_t us = ob_broker_left_us(redis->broker);
    redis->context =
        redisConnectUnixWithTimeout(redis->path, (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000});
    if (!redis->context || redis->context->err == REDIS_ERR_OOM)
        return lacks_memory(verdict);
    if (redis->context->err)
        ob_verdict_unreachable(verdict, "redis", redis->place, redis->context->errstr);
    return !redis->context->err;
}

static bool open_url(struct ob_redis *redis, const struct ob_broker_url *to, struct ob_verdict *verdict)
{
    int fd = ob_broker_dial(redis->broker, to, verdict);
    if (fd < 0)
        return false;
    redis->context = redisConnectFd(fd);
    if (!redis->context) {
        close(fd);
        return lacks_memory(verdict);
    }
    redisEnableKeepAlive(redis->context);
    return true;
}

bool ob_redis_open(struct ob_redis *redis, const struct ob_broker_url *to, struct ob_verdict *verdict)
{
    if (!(redis->path ? open_path(redis, verdict) : open_url(redis, to, verdict)))
        return false;
    ob_resp_guard_init(&redis->guard, REPLY_MOST);
    redis->context->flags &= ~REDIS_BLOCK;
    int flags = fcntl(redis->context->fd, F_GETFL);
    (void)fcntl(redis->context->fd, F_SETFL, flags | O_NONBLOCK);
    return true;
}

void ob_redis_expect(struct ob_redis *redis, size_t bytes)
{
    if (bytes + REPLY_MOST > redis->guard.limit)
        redis->guard.limit = bytes + REPLY_MOST;
}

const char *ob_redis_read(struct ob_redis *redis)
{
    char data[READ];
    for (int turn = 0; turn < TURNS; turn++) {
        ssize_t got = read(redis->context->fd, data, sizeof data);
        if (got == 0)
            return "Server closed the connection";
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return NULL;
        if (got < 0)
            return strerror(errno);
        if (!ob_resp_guard_pass(&redis->guard, data, (size_t)got))
            return redis->guard.why;
        if (redisReaderFeed(redis->context->reader, data, (size_t)got) != REDIS_OK)
            return redis->context->reader->errstr;
        if ((size_t)got < sizeof data)
            return NULL;
    }
    return NULL;
}
