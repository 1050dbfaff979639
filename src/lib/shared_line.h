/* shared_line.h - one line to a store (core/line.h), used by several engines.
 *
 * A reload starts a new engine while the one before still finishes its deliveries. Both go to the same store, and there is no
 * reason to connect twice; to an SQLite file only one can. Each gets a line of its own to use, and what they ask is passed
 * on one after the other, in the order in which it was asked.
 *
 * One thread. */
#ifndef OB_LIB_SHARED_LINE_H
#define OB_LIB_SHARED_LINE_H

#include "core/line.h"

struct ob_shared_line;

/* The host of the options is not used: every user brings its own. Nothing is asked of the store yet. */
enum outbox_code ob_shared_line_open(const struct ob_line_options *options, struct ob_shared_line **out,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The line is closed with the last reference; every user has one. Both accept NULL. */
struct ob_shared_line *ob_shared_line_ref(struct ob_shared_line *shared);
void ob_shared_line_unref(struct ob_shared_line *shared);

/* A line that passes on to the shared one. *line: line->ops->close. */
enum outbox_code ob_shared_line_use(struct ob_shared_line *shared, const struct ob_line_host *host,
                                    struct ob_line **line, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
