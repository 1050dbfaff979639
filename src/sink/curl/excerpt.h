/* excerpt.h - a receiver's answer, made safe to show: printable text, without the secrets that we sent, because some
 * receivers repeat them. No I/O; any thread. */
#ifndef OB_SINK_CURL_EXCERPT_H
#define OB_SINK_CURL_EXCERPT_H

#include "base/buf.h"

/* Appends the text as one line: control characters become spaces, invalid UTF-8 becomes question marks. */
void ob_excerpt_put(struct ob_buf *out, const char *text, size_t len);
/* Overwrites every occurrence of the secret with asterisks, also a part of it where the text was cut off within it. Ignores
 * a secret that is NULL or shorter than 4 bytes. */
void ob_excerpt_mask(struct ob_buf *text, const char *secret);

#endif
