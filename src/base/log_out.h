/* log_out.h - writes log lines without blocking: a pipe that nobody reads must not stop deliveries.
 *
 * A line is written at once if the descriptor has room. Otherwise it is buffered; if the buffer, of fixed size, is full, the
 * line is dropped and counted. Buffered lines are written before the next line, or by a flush. Lines keep their order, and
 * are only dropped whole. A regular file always has room.
 *
 * Any thread may write. */
#ifndef OB_BASE_LOG_OUT_H
#define OB_BASE_LOG_OUT_H

#include "base/log.h"

#include <pthread.h>

enum { OB_LOG_OUT_BYTES = 256 * 1024 };

struct ob_log_out {
    pthread_mutex_t lock; /* guards all fields below */
    int fd;
    enum { OB_LOG_OUT_PLAIN, OB_LOG_OUT_SOCKET, OB_LOG_OUT_UNBLOCKED, OB_LOG_OUT_CAREFUL } way;
    size_t from, to; /* the buffered part of `waiting` */
    uint64_t dropped, told;
    char waiting[OB_LOG_OUT_BYTES];
};

/* fd is borrowed and its flags are not changed: others may use it too. `out` must live as long as the process: a thread that
 * was not joined may still log after fini; such lines are dropped. */
void ob_log_out_init(struct ob_log_out *out, int fd);
/* Flushes the buffer, for at most patience_us. */
void ob_log_out_fini(struct ob_log_out *out, int64_t patience_us);

ob_log_fn ob_log_out_write; /* for struct ob_log; ctx is the log_out */

/* Writes what there is room for now. */
void ob_log_out_flush(struct ob_log_out *out);
/* The number of lines dropped so far. */
uint64_t ob_log_out_dropped(struct ob_log_out *out);
/* Once the buffer is empty: the number of dropped lines that no earlier call returned. Until then 0. */
uint64_t ob_log_out_cleared(struct ob_log_out *out);

#endif
