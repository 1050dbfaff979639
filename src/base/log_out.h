/* log_out.h - where a log's lines go without anybody waiting: a pipe that nobody reads stops no delivery.
 *
 * A line is written at once when there is room. Otherwise it waits in a buffer of fixed size, and when that is full it is
 * dropped and counted. What waits goes out with the next line, or with a flush; lines keep their order, and none is torn.
 * A regular file always has room.
 *
 * Any thread may write. */
#ifndef OB_BASE_LOG_OUT_H
#define OB_BASE_LOG_OUT_H

#include "base/log.h"

#include <pthread.h>

enum { OB_LOG_OUT_BYTES = 256 * 1024 };

struct ob_log_out {
    pthread_mutex_t lock; /* of all below */
    int fd;
    enum { OB_LOG_OUT_PLAIN, OB_LOG_OUT_SOCKET, OB_LOG_OUT_UNBLOCKED, OB_LOG_OUT_CAREFUL } way;
    size_t from, to; /* what waits */
    uint64_t dropped, told;
    char waiting[OB_LOG_OUT_BYTES];
};

/* fd is borrowed, and not changed: others may use it too. It must live as long as the process: a thread that was left behind
 * may have a last word after fini, which then is dropped. */
void ob_log_out_init(struct ob_log_out *out, int fd);
/* Flushes what waits, but not longer than this. */
void ob_log_out_fini(struct ob_log_out *out, int64_t patience_us);

ob_log_fn ob_log_out_write; /* for struct ob_log; ctx is the log_out */

/* Writes what there is room for now. */
void ob_log_out_flush(struct ob_log_out *out);
/* How many lines were dropped so far. */
uint64_t ob_log_out_dropped(struct ob_log_out *out);
/* How many of them were not asked for yet, as soon as nothing waits any more; 0 before. */
uint64_t ob_log_out_cleared(struct ob_log_out *out);

#endif
