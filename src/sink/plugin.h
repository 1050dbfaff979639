/* plugin.h - adapts a sink in a shared object, which may be built with an older or newer header, to this host's structs.
 *
 * Its table is copied into one of ours. Arrays are converted at each call: ob_sink_open, ob_sink_check and ob_sink_deliver
 * are the only way to call open, check and deliver of any sink, built in or not. */
#ifndef OB_SINK_PLUGIN_H
#define OB_SINK_PLUGIN_H

#include <outbox/sink.h>

/* Checks the table of the shared object at path and makes ours from it. Ours lives as long as the process: the same table
 * gives the same pointer. */
enum outbox_code ob_plugin_adopt(const char *path, const struct outbox_sink_ops *theirs,
                                 const struct outbox_sink_ops **ops, struct outbox_error *err) OUTBOX_MUST_CHECK;

enum outbox_code ob_sink_open(const struct outbox_sink_ops *ops, const struct outbox_sink_option *options, size_t count,
                              const struct outbox_sink_host *host, outbox_sink **sink,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Does nothing if the sink has no check. */
void ob_sink_check(const struct outbox_sink_ops *ops, const struct outbox_sink_check *check);
/* False: out of memory, and the sink was not called. */
bool ob_sink_deliver(const struct outbox_sink_ops *ops, outbox_sink *sink, const struct outbox_sink_item *items,
                     size_t count) OUTBOX_MUST_CHECK;

#endif
