/* codec.c - see codec.h. It uses libzstd's simple calls: each makes and frees its own context, so no memory is retained. */
#include "core/codec.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/json_check.h"
#include "core/store.h"

#include <string.h>

enum { OVER_DEFAULT = 16384, LEVEL = 3 };

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

static bool is_wanted(const struct outbox_message *msg)
{
    if (msg->compress_over < 0 || msg->payload_len > OB_CODEC_MAX)
        return false;
    if (msg->payload_len <= (size_t)(msg->compress_over ? msg->compress_over : OVER_DEFAULT))
        return false;
    /* The store cannot check JSON in a frame: JSON that it might refuse is sent uncompressed. */
    return msg->content_type || ob_json_check(msg->payload, msg->payload_len);
}

const char *ob_codec_pack(const struct outbox_message *msg, struct ob_buf *frame)
{
    ob_buf_reset(frame);
    if (!is_wanted(msg))
        return NULL;
    size_t most = msg->payload_len - msg->payload_len / 10; /* if the frame is larger, compression is not worth it */
    char *room = ob_buf_reserve(frame, most);
    size_t len = room ? ZSTD_compress(room, most, msg->payload, msg->payload_len, LEVEL) : 0;
    if (!room || ZSTD_isError(len)) {
        ob_buf_reset(frame);
        return NULL;
    }
    ob_buf_added(frame, len);
    return "zstd";
}

/* How many bytes there will be. */
static enum outbox_fault size_of(const char *encoding, const void *data, size_t len, size_t *size)
{
    *size = 0;
    if (strcmp(encoding, "zstd") != 0)
        return OUTBOX_FAULT_UNSUPPORTED;
    unsigned long long told = ZSTD_getFrameContentSize(data, len);
    if (told == ZSTD_CONTENTSIZE_UNKNOWN || told == ZSTD_CONTENTSIZE_ERROR || told > OB_CODEC_MAX)
        return OUTBOX_FAULT_DAMAGED;
    if (ZSTD_findFrameCompressedSize(data, len) != len)
        return OUTBOX_FAULT_DAMAGED;
    *size = (size_t)told;
    return OUTBOX_FAULT_NONE;
}

static enum outbox_fault unpack(const void *data, size_t len, void *room, size_t size)
{
    size_t got = ZSTD_decompress(room, size, data, len);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return OUTBOX_FAULT_MEMORY;
    return got == size ? OUTBOX_FAULT_NONE : OUTBOX_FAULT_DAMAGED;
}

#else

const char *ob_codec_pack(const struct outbox_message *msg, struct ob_buf *frame)
{
    (void)msg;
    ob_buf_reset(frame);
    return NULL;
}

/* How many bytes there will be. */
static enum outbox_fault size_of(const char *encoding, const void *data, size_t len, size_t *size)
{
    (void)encoding, (void)data, (void)len;
    *size = 0;
    return OUTBOX_FAULT_UNSUPPORTED;
}

static enum outbox_fault unpack(const void *data, size_t len, void *room, size_t size)
{
    (void)data, (void)len, (void)room, (void)size;
    return OUTBOX_FAULT_UNSUPPORTED;
}

#endif

static enum outbox_fault decoded(enum outbox_fault fault, char *room, const void **payload, size_t *len, size_t size)
{
    if (!fault)
        fault = room ? unpack(*payload, *len, room, size) : OUTBOX_FAULT_MEMORY;
    if (!fault)
        room[size] = '\0';
    *payload = fault ? NULL : room;
    *len = fault ? 0 : size;
    return fault;
}

/* A payload without a content type is inserted into documents unchanged. Nobody else has checked what came out of a frame,
 * nor what another program wrote into the file of an embedded database. */
static enum outbox_fault judged(const char *content_type, const void *payload, size_t len)
{
    return content_type || ob_json_valid(payload, len) ? OUTBOX_FAULT_NONE : OUTBOX_FAULT_NOT_JSON;
}

static void unpack_delivery(const char *encoding, struct ob_arena *arena, size_t *left, struct outbox_delivery *msg)
{
    size_t size;
    enum outbox_fault fault = size_of(encoding, msg->payload, msg->payload_len, &size);
    bool fits = size < *left || *left == OB_CODEC_BATCH;
    char *room = fault || !fits ? NULL : ob_arena_alloc(arena, size + 1);
    msg->fault = decoded(fault, room, &msg->payload, &msg->payload_len, size);
    if (room)
        *left -= size < *left ? size : *left;
}

void ob_codec_deliver(const char *encoding, struct ob_arena *arena, size_t *left, struct outbox_delivery *msg)
{
    if (!msg->payload)
        return;
    if (encoding)
        unpack_delivery(encoding, arena, left, msg);
    if (!msg->fault)
        msg->fault = judged(msg->content_type, msg->payload, msg->payload_len);
    if (msg->fault) {
        msg->payload = NULL;
        msg->payload_len = 0;
    }
}

static void unpack_row(const char *encoding, struct ob_buf *buf, struct ob_message_row *row)
{
    size_t size;
    enum outbox_fault fault = size_of(encoding, row->payload, row->payload_len, &size);
    ob_buf_reset(buf);
    char *room = fault ? NULL : ob_buf_reserve(buf, size + 1);
    row->fault = decoded(fault, room, &row->payload, &row->payload_len, size);
}

void ob_codec_show(const char *encoding, struct ob_buf *buf, struct ob_message_row *row)
{
    if (!row->payload)
        return;
    if (encoding)
        unpack_row(encoding, buf, row);
    if (!row->fault)
        row->fault = judged(row->content_type, row->payload, row->payload_len);
}

const char *ob_codec_name(void)
{
#ifdef HAVE_ZSTD
    return "zstd";
#else
    return NULL;
#endif
}

const char *ob_codec_fault_text(enum outbox_fault fault)
{
    switch (fault) {
    case OUTBOX_FAULT_DAMAGED: return "the stored payload is not a complete zstd frame within the limits";
    case OUTBOX_FAULT_UNSUPPORTED: return "the payload is stored in an encoding that this build does not support";
    case OUTBOX_FAULT_MEMORY: return "out of memory while decompressing the payload";
    case OUTBOX_FAULT_NOT_JSON: return "the payload has no content type and is not valid JSON";
    default: return NULL;
    }
}
