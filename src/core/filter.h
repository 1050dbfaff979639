/* filter.h - the filter language: `status:dead topic:orders.* age:>1h error:~"timed out"`.
 *
 * Terms stand side by side, and all must match. def/filter.def is the table of terms, docs/filter.md explains them. The command line
 * and everything else that takes a filter from a person parses it here, so that one text means the same everywhere. */
#ifndef OB_CORE_FILTER_H
#define OB_CORE_FILTER_H

#include "base/arena.h"
#include "core/store.h"

enum { OB_FILTER_TEXT_MAX = 8192, OB_FILTER_ID_LEAST = 4 };

/* Adds the terms of a text to a filter; several texts may go into one filter. now_us: ages count back from here. Values are
 * copied into the arena. OUTBOX_INVALID names the term and what is wrong with it; the filter may have changed by then. */
ob_code ob_filter_parse(struct ob_filter *filter, const char *text, int64_t now_us, struct ob_arena *arena,
                        struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Adds one term; value is literal, as from an option: no quotes. A value of COUNT, AGE or CONTAINS begins with its operator. */
ob_code ob_filter_add(struct ob_filter *filter, const char *name, const char *value, int64_t now_us,
                      struct ob_arena *arena, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Whether it has a condition at all; paging and limits are none. */
bool ob_filter_selects(const struct ob_filter *filter);

/* Where to look for the messages of a filter, so that an index or a small table gives them. */
enum ob_part {
    OB_PART_MESSAGE, /* all messages: by id, tenant, subject, or the newest */
    OB_PART_QUEUE,   /* pending */
    OB_PART_TAKEN,   /* leased */
    OB_PART_DEAD,
    OB_PART_FAILED, /* dead, or waiting after a failure: the only ones that have a last failure */
    OB_PART_DISCARDED,
    OB_PART_GROUP, /* failures of one fingerprint */
};
enum ob_part ob_filter_part(const struct ob_filter *filter);
/* How many messages of the part a page looks at; the page is found among them, or the list is capped. 0: no bound is needed. */
int ob_filter_look(const struct ob_filter *filter, enum ob_part part);

const char *ob_status_name(enum ob_status status);
/* The status of this name + 1; 0: not found. */
int ob_status_find(const char *name);

#endif
