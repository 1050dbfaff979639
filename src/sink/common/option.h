/* option.h - reading the options an adapter is opened with.
 *
 * The host has checked them against the adapter's table: names are known and numbers are numbers. So these functions do not
 * fail. An absent option has the default of the table, and no other; a name that is not in the table is a bug in the adapter.
 * Texts are borrowed from the options and the table. */
#ifndef OB_SINK_COMMON_OPTION_H
#define OB_SINK_COMMON_OPTION_H

#include "base/arena.h"

#include <outbox/sink.h>

struct ob_options {
    const struct outbox_sink_option *at;
    size_t count;
    const struct outbox_sink_setting *settings; /* the adapter's table */
};

bool ob_option_known(const struct ob_options *options, const char *name); /* in the table */

/* NULL if it is neither given nor has a default. If it is given several times, the last one counts. */
const char *ob_option_text(const struct ob_options *options, const char *name);
/* The same, "" instead of NULL. */
const char *ob_option_string(const struct ob_options *options, const char *name);
bool ob_option_is(const struct ob_options *options, const char *name, const char *word);
/* Also durations (microseconds) and sizes (bytes). 0 when it is neither given nor has a default. */
int64_t ob_option_int(const struct ob_options *options, const char *name);
bool ob_option_bool(const struct ob_options *options, const char *name);

/* A copy in the arena; NULL if it is not given, or empty. */
enum outbox_code ob_option_keep(const struct ob_options *options, const char *name, struct ob_arena *arena,
                                const char **text, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same for the name of a file, which must be readable. */
enum outbox_code ob_option_keep_file(const struct ob_options *options, const char *name, struct ob_arena *arena,
                                     const char **text, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Walks the elements of a list: for (size_t i = 0; (text = ob_option_next(options, name, &i));). NULL at the end. */
const char *ob_option_next(const struct ob_options *options, const char *name, size_t *i);
size_t ob_option_count(const struct ob_options *options, const char *name);
/* Walks a map: every option below name, such as "headers.X-Team"; *key is the part after the dot. */
const char *ob_option_below(const struct ob_options *options, const char *name, size_t *i, const char **key);

#endif
