/* attach.h - files that a message names, from below one folder of the operator's and nowhere else.
 *
 * The name comes from a payload and is not trusted: it is walked step by step from the folder, no step may be a link,
 * "." or "..", and what it leads to must be a plain file. Thread: the workers', for reading may take its time. */
#ifndef OB_SINK_SMTP_ATTACH_H
#define OB_SINK_SMTP_ATTACH_H

#include "base/buf.h"

#include <outbox/outbox.h>

/* Whether the name could ever be one: relative, without "..", "." and empty steps. */
bool ob_attach_name_ok(const char *name);

/* Appends the file's content to buf. *code is stable: "smtp_attachment_missing", "smtp_attachment_refused",
 * "smtp_attachment_too_large", "smtp_attachment_unreadable"; OUTBOX_BUSY for those that may heal by themselves. */
enum outbox_code ob_attach_read(const char *folder, const char *name, size_t most, struct ob_buf *buf,
                                const char **code, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
