/* protobuf.h - writes the wire format of Protocol Buffers into a fixed piece of memory, and reads as much of it as an answer of
 * OTLP needs. No allocation. What does not fit sets `full`, and nothing more is written. */
#ifndef OB_TRACE_PROTOBUF_H
#define OB_TRACE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_pb {
    unsigned char *data;
    size_t len, room;
    bool full;
};

enum ob_pb_wire { OB_PB_VARINT = 0, OB_PB_FIXED64 = 1, OB_PB_BYTES = 2, OB_PB_FIXED32 = 5 };

void ob_pb_init(struct ob_pb *pb, void *data, size_t room);
size_t ob_pb_varint_size(uint64_t value);
void ob_pb_varint(struct ob_pb *pb, uint64_t value);
void ob_pb_raw(struct ob_pb *pb, const void *data, size_t len);
/* A field: its tag and its value. */
void ob_pb_uint(struct ob_pb *pb, int field, uint64_t value);
void ob_pb_fixed64(struct ob_pb *pb, int field, uint64_t value);
void ob_pb_fixed32(struct ob_pb *pb, int field, uint32_t value);
void ob_pb_bytes(struct ob_pb *pb, int field, const void *data, size_t len);
/* The head of a message of that size, whose content follows. */
void ob_pb_begin(struct ob_pb *pb, int field, size_t size);

/* One field of a message that is read. */
struct ob_pb_field {
    int number;
    enum ob_pb_wire wire;
    uint64_t value; /* VARINT, FIXED64, FIXED32 */
    const unsigned char *data;
    size_t len; /* BYTES */
};

struct ob_pb_reader {
    const unsigned char *at, *end;
};
/* False: at the end, or it is no valid message; then at is not the end. */
bool ob_pb_next(struct ob_pb_reader *reader, struct ob_pb_field *field);

#endif
