/* protobuf.c - see protobuf.h. */
#include "trace/protobuf.h"

#include <string.h>

void ob_pb_init(struct ob_pb *pb, void *data, size_t room)
{
    *pb = (struct ob_pb){.data = data, .room = room};
}

size_t ob_pb_varint_size(uint64_t value)
{
    size_t size = 1;
    while (value >>= 7)
        size++;
    return size;
}

void ob_pb_raw(struct ob_pb *pb, const void *data, size_t len)
{
    pb->full = pb->full || len > pb->room - pb->len;
    if (pb->full || !len)
        return;
    memcpy(pb->data + pb->len, data, len);
    pb->len += len;
}

void ob_pb_varint(struct ob_pb *pb, uint64_t value)
{
    if (value < 0x80 && !pb->full && pb->len < pb->room) { /* nearly all are */
        pb->data[pb->len++] = (unsigned char)value;
        return;
    }
    unsigned char bytes[10];
    size_t len = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[len++] = (unsigned char)(value | 0x80);
    bytes[len++] = (unsigned char)value;
    ob_pb_raw(pb, bytes, len);
}

static void put_tag(struct ob_pb *pb, int field, enum ob_pb_wire wire)
{
    ob_pb_varint(pb, (uint64_t)field << 3 | wire);
}

void ob_pb_uint(struct ob_pb *pb, int field, uint64_t value)
{
    put_tag(pb, field, OB_PB_VARINT);
    ob_pb_varint(pb, value);
}

static void put_little_endian(struct ob_pb *pb, uint64_t value, size_t len)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    ob_pb_raw(pb, bytes, len);
}

void ob_pb_fixed64(struct ob_pb *pb, int field, uint64_t value)
{
    put_tag(pb, field, OB_PB_FIXED64);
    put_little_endian(pb, value, 8);
}

void ob_pb_fixed32(struct ob_pb *pb, int field, uint32_t value)
{
    put_tag(pb, field, OB_PB_FIXED32);
    put_little_endian(pb, value, 4);
}

void ob_pb_begin(struct ob_pb *pb, int field, size_t size)
{
    put_tag(pb, field, OB_PB_BYTES);
    ob_pb_varint(pb, size);
}

void ob_pb_bytes(struct ob_pb *pb, int field, const void *data, size_t len)
{
    ob_pb_begin(pb, field, len);
    ob_pb_raw(pb, data, len);
}

/* ---- reading ---- */

static bool read_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    uint64_t sum = 0;
    const unsigned char *from = *at;
    for (int shift = 0; shift < 64 && from < end; shift += 7) {
        sum |= (uint64_t)(*from & 0x7f) << shift;
        if (!(*from++ & 0x80)) {
            *value = sum;
            *at = from;
            return true;
        }
    }
    return false;
}

static bool read_fixed(const unsigned char **at, const unsigned char *end, size_t len, uint64_t *value)
{
    if ((size_t)(end - *at) < len)
        return false;
    *value = 0;
    for (size_t i = 0; i < len; i++)
        *value |= (uint64_t)(*at)[i] << (8 * i);
    *at += len;
    return true;
}

bool ob_pb_next(struct ob_pb_reader *reader, struct ob_pb_field *field)
{
    const unsigned char *at = reader->at;
    uint64_t tag, len;
    *field = (struct ob_pb_field){0};
    if (at == reader->end || !read_varint(&at, reader->end, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    field->number = (int)(tag >> 3);
    field->wire = (enum ob_pb_wire)(tag & 7);
    switch (field->wire) {
    case OB_PB_VARINT:
        if (!read_varint(&at, reader->end, &field->value))
            return false;
        break;
    case OB_PB_FIXED64:
    case OB_PB_FIXED32:
        if (!read_fixed(&at, reader->end, field->wire == OB_PB_FIXED64 ? 8 : 4, &field->value))
            return false;
        break;
    case OB_PB_BYTES:
        if (!read_varint(&at, reader->end, &len) || len > (size_t)(reader->end - at))
            return false;
        field->data = at;
        field->len = (size_t)len;
        at += len;
        break;
    default: return false;
    }
    reader->at = at;
    return true;
}
