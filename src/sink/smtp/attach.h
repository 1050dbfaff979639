/* attach.h - files that a message names, which must be below one configured folder.
 *
 * The name comes from a payload and is not trusted: it is opened component by component from the folder, no component may
 * be a symbolic link, "." or "..", and the last must be a regular file. Thread: the workers', because reading may be slow. */
#ifndef OB_SINK_SMTP_ATTACH_H
#define OB_SINK_SMTP_ATTACH_H

#include "base/buf.h"

#include <outbox/outbox.h>

/* Whether the name is allowed: relative, without "..", "." and empty components. */
bool ob_attach_name_ok(const char *name);

/* Appends the file's content to buf. *code is stable: "smtp_attachment_missing", "smtp_attachment_refused",
 * "smtp_attachment_too_large", "smtp_attachment_unreadable"; OUTBOX_BUSY for errors that may be temporary. */
enum outbox_code ob_attach_read(const char *folder, const char *name, size_t most, struct ob_buf *buf,
                                const char **code, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
