/* codec.h - payloads as stored: plain, or as one zstd frame.
 *
 * A payload is decompressed only if it is a single frame that needs no dictionary and declares its size, at most
 * OB_CODEC_MAX: so the size is known and bounded before a byte is decompressed. A build without zstd compresses nothing, and
 * reports a compressed payload as OUTBOX_FAULT_UNSUPPORTED. */
#ifndef OB_CORE_CODEC_H
#define OB_CORE_CODEC_H

#include "base/limits.h"

struct ob_arena;
struct ob_buf;
struct ob_message_row;

enum {
    OB_CODEC_MAX = OB_LIMIT_MOST_max_payload,
    OB_CODEC_BATCH = 67108864, /* maximum decompressed size of a claim's messages, if there is more than one */
};

/* Compresses the payload into `frame` and returns the name of the encoding. NULL: the payload is to be stored plain, because
 * it is not over its threshold, would hardly become smaller, is not JSON that every store accepts, or there is no memory.
 * A JSON payload must be valid UTF-8. */
const char *ob_codec_pack(const struct outbox_message *msg, struct ob_buf *frame);

/* Replace a stored payload by the plain one, followed by a NUL; or set the fault and the payload to NULL, without affecting
 * other messages. encoding NULL: it is plain already. A payload without a content type is checked to be JSON, so call this
 * for everything that the database has not checked itself (not needed for jsonb). They do nothing when there is no payload.
 * ob_codec_show keeps the bytes of a payload that is not JSON.
 *
 * *left starts as OB_CODEC_BATCH: a claim of many small frames must not expand to more than there is memory. A message that
 * exceeds it gets OUTBOX_FAULT_MEMORY and comes again with a later claim; this never happens to the first one of a claim. */
void ob_codec_deliver(const char *encoding, struct ob_arena *arena, size_t *left, struct outbox_delivery *msg);
void ob_codec_show(const char *encoding, struct ob_buf *buf, struct ob_message_row *row);

/* The encoding that this build supports; NULL: none. */
const char *ob_codec_name(void);

/* Text for display; NULL for OUTBOX_FAULT_NONE. */
const char *ob_codec_fault_text(enum outbox_fault fault);

#endif
