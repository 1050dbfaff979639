/* smtp_reply.c - fuzzes what mail servers say: lines in, a verdict out. */
#include "fuzz.h"

#include "sink/smtp/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct ob_smtp_reply reply = {0};
    ob_smtp_reply_reset(&reply);
    reply.begun = data[0] & 1;
    const uint8_t *at = data + 2, *end = data + size;
    while (at < end) {
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = line ? (size_t)(line - at) + 1 : (size_t)(end - at);
        ob_smtp_reply_line(&reply, (const char *)at, len);
        at += len;
    }
    char code[OB_SMTP_CODE], reference[256];
    struct outbox_verdict verdict = {0};
    struct ob_smtp_end how = {
        .curl = data[1] % 100, .stage = ob_smtp_reply_stage(&reply, data[0] & 2), .reply = &reply, .error = ""};
    ob_smtp_judge(&how, code, &verdict);
    ob_smtp_reference(&reply, reference, sizeof reference);
    return 0;
}
