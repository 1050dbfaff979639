/* mime.h - the text of an email: header fields, and bodies in quoted-printable and base64 (RFC 5322, 2045, 2047,
 * 2231).
 *
 * Everything is 7-bit in short lines that end with CRLF, so that no server on the way needs to change it. A control
 * character in a header field is refused, never encoded: no valid value contains one. */
#ifndef OB_SINK_SMTP_MIME_H
#define OB_SINK_SMTP_MIME_H

#include "base/buf.h"

#include <stdint.h>

/* "Name: value" with encoded words where needed; false if the value has control characters or is not UTF-8. */
bool ob_mime_field(struct ob_buf *buf, const char *name, const char *value) __attribute__((warn_unused_result));
/* "Name: display <address>"; display may be NULL. The address has been checked. */
bool ob_mime_mailbox(struct ob_buf *buf, const char *name, const char *display, const char *address)
    __attribute__((warn_unused_result));
/* "Date: ..." in UTC. */
void ob_mime_date(struct ob_buf *buf, int64_t unix_s);
/* ; name="value", or in the form of RFC 2231 if the value is not ASCII, has quotes or backslashes, or is too long. False as for ob_mime_field. */
bool ob_mime_parameter(struct ob_buf *buf, const char *name, const char *value) __attribute__((warn_unused_result));

/* The text may have any line ends; the output ends with CRLF. */
void ob_mime_quoted_printable(struct ob_buf *buf, const char *text, size_t len);
void ob_mime_base64(struct ob_buf *buf, const void *data, size_t len);

/* Whether the address may be used in an envelope: ASCII, one '@', no quotes, no control characters, at most 254 bytes. */
bool ob_mime_address_ok(const char *address);
/* Such as "example.org": letters, digits, '-' and dots. */
bool ob_mime_domain_ok(const char *domain);

#endif
