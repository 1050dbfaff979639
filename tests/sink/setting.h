/* setting.h - makes the options that an adapter is opened with from what a user wrote, by the adapter's own table:
 * unknown names and wrong values are refused, durations and sizes become numbers, defaults are filled in. The relay does
 * the same while it reads its configuration; here it goes without a file. */
#ifndef HARNESS_SETTING_H
#define HARNESS_SETTING_H

#include "base/arena.h"

#include <outbox/sink.h>

/* The row that a name belongs to ("headers.X-Team" belongs to the map "headers"); NULL when there is none. */
const struct outbox_sink_setting *ob_setting_find(const struct outbox_sink_setting *table, const char *name);

/* One value, as the adapter gets it; text is the user's. In the arena, or the text itself. A text too wrong to use fills
 * err with what the setting must be, without naming its value when it is secret. */
enum outbox_code ob_setting_value(const struct outbox_sink_setting *setting, const char *text, struct ob_arena *arena,
                                  const char **value, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* All of them. The first mistake counts. A table of NULL lets everything pass as it is. */
enum outbox_code ob_settings_complete(const struct outbox_sink_setting *table, const struct outbox_sink_option *given,
                                      size_t given_count, struct ob_arena *arena,
                                      const struct outbox_sink_option **options, size_t *count,
                                      struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
