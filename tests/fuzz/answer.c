/* answer.c - fuzzes what HTTP receivers say: header lines, then a body, in pieces. */
#include "fuzz.h"

#include "sink/http/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    struct outbox_sink_option options[] = {
        {.name = "url", .value = "https://example.test/"},
        {.name = "reference_pointer", .value = "/id"},
    };
    struct ob_http_config config = {0};
    struct outbox_error err;
    struct ob_http_answer answer;
    if (ob_http_config_init(&config, options, 1 + (data[0] & 1), &err) != OUTBOX_OK) {
        ob_http_config_fini(&config);
        return 0;
    }
    ob_http_answer_init(&answer, &config);
    const uint8_t *at = data + 4, *end = data + size;
    while (at < end) {
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = line ? (size_t)(line - at) + 1 : (size_t)(end - at);
        if (!answer.headed ? ob_http_answer_header((char *)at, 1, len, &answer) != len
                           : ob_http_answer_body((char *)at, 1, len, &answer) != len)
            break;
        at += len;
    }
    struct outbox_verdict verdict = {0};
    struct ob_http_end how = {.curl = data[1] % 100, .status = 100 + data[2] * 2 + data[3] % 2};
    ob_http_answer_describe(&answer, &how, "", &verdict);
    ob_http_answer_fini(&answer);
    ob_http_config_fini(&config);
    return 0;
}
