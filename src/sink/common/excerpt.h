/* excerpt.h - what a receiver said, made fit to be shown: it is data, and some receivers repeat what we sent them in
 * secret. */
#ifndef OB_SINK_COMMON_EXCERPT_H
#define OB_SINK_COMMON_EXCERPT_H

#include "base/buf.h"

/* Appends the text as one line: control characters become spaces, what is no UTF-8 a question mark. */
void ob_excerpt_put(struct ob_buf *out, const char *text, size_t len);
/* Overwrites every occurrence with asterisks, and its beginning where the text was cut off amidst it. A secret that is
 * NULL or shorter than 4 bytes is none. */
void ob_excerpt_mask(struct ob_buf *text, const char *secret);

#endif
