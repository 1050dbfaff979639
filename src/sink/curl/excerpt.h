/* excerpt.h - an answer of a receiver, made safe to show: printable text, without the secrets that we sent, because some
 * receivers repeat them. No I/O; any thread. */
#ifndef OB_SINK_CURL_EXCERPT_H
#define OB_SINK_CURL_EXCERPT_H

#include "base/buf.h"

/* Appends the text as one line: control characters become spaces, what is no UTF-8 a question mark. */
void ob_excerpt_put(struct ob_buf *out, const char *text, size_t len);
/* Overwrites every occurrence with asterisks, and its beginning where the text was cut off amidst it. A secret that is
 * NULL or shorter than 4 bytes is none. */
void ob_excerpt_mask(struct ob_buf *text, const char *secret);

#endif
