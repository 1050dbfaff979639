/* codec.c - fuzzes compressed payloads: no frame becomes more than it says, and never more than a claim may hold. */
#include "fuzz.h"

#include "base/arena.h"
#include "core/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ob_arena arena;
    ob_arena_init(&arena, 4096);
    size_t left = 1 << 20;
    struct outbox_delivery msg = {.size = sizeof msg, .payload = data, .payload_len = size};
    ob_codec_deliver("zstd", &arena, &left, &msg);
    if (msg.payload && msg.payload_len && ((const char *)msg.payload)[msg.payload_len] != '\0')
        abort();
    msg = (struct outbox_delivery){.size = sizeof msg, .payload = data, .payload_len = size};
    ob_codec_deliver(NULL, &arena, &left, &msg);
    ob_arena_fini(&arena);
    return 0;
}
