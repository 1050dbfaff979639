/* codec.h - payloads as they are stored: as they are, or as one zstd frame.
 *
 * A frame is taken only when it is alone, needs no dictionary and tells its size, which is at most OB_CODEC_MAX: what
 * comes out of it is known and bounded before a byte is decompressed. In a build without zstd nothing is compressed, and
 * what others compressed is OUTBOX_FAULT_UNSUPPORTED. */
#ifndef OB_CORE_CODEC_H
#define OB_CORE_CODEC_H

#include "base/limits.h"

struct ob_arena;
struct ob_buf;
struct ob_message_row;

enum {
    OB_CODEC_MAX = OB_LIMIT_MOST_max_payload,
    OB_CODEC_BATCH = 67108864, /* what the messages of one claim may decompress to, if there is more than one */
};

/* The name of the encoding that the message goes to the store with, its payload then being in `frame`; NULL: as it is,
 * since it is not over its threshold, or would hardly become smaller, or is no JSON that every store takes, or there is
 * no memory. The message must be valid UTF-8 where it is JSON. */
const char *ob_codec_pack(const struct outbox_message *msg, struct ob_buf *frame);

/* Their payload, as it is stored, becomes plain, with a NUL behind it; or the fault is told and it becomes NULL: the other
 * messages are none the worse. encoding NULL: it is plain. A payload without a content type is checked to be JSON, so call
 * this for whatever the database has not checked itself (jsonb needs it not). It does nothing when there is no payload.
 * A row that is shown keeps the bytes of what is no JSON.
 *
 * left begins as OB_CODEC_BATCH: a claim of many small frames must not become more than there is memory. What is over it
 * is a shortage, and comes with a later claim; the first of a claim is never. */
void ob_codec_deliver(const char *encoding, struct ob_arena *arena, size_t *left, struct outbox_delivery *msg);
void ob_codec_show(const char *encoding, struct ob_buf *buf, struct ob_message_row *row);

/* The encoding that this build knows; NULL: none. */
const char *ob_codec_name(void);

/* For people; NULL for OUTBOX_FAULT_NONE. */
const char *ob_codec_fault_text(enum outbox_fault fault);

#endif
