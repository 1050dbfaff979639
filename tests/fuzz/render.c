/* render.c - fuzzes what goes on the wire: headers, CloudEvents, records. Whatever a message holds, an envelope is one JSON
 * object on one line that says what we say (id, source), not what the payload says. */
#include "fuzz.h"

#include "base/utf8.h"
#include "sink/common/render.h"

#include <jansson.h>

static void envelope(const struct ob_buf *buf, const char *id)
{
    const char *text = buf->data;
    if (buf->failed || !text)
        return;
    if (memchr(text, '\n', buf->len))
        abort();
    json_error_t error;
    json_t *value = json_loadb(text, buf->len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!value && json_error_code(&error) == json_error_numeric_overflow)
        return;
    /* A payload may repeat names inside, the envelope may not. */
    if (!value && json_error_code(&error) == json_error_duplicate_key)
        value = json_loadb(text, buf->len, JSON_DECODE_INT_AS_REAL, &error);
    if (!json_is_object(value))
        abort();
    const char *said = json_string_value(json_object_get(value, "id"));
    if (!said || strcmp(said, id) != 0)
        abort();
    json_decref(value);
}

static void render_message(char *const parts[6], const char *payload, size_t len)
{
    static const char id[] = "018bcfe5-6800-7abc-8def-0123456789ab";
    struct outbox_delivery msg = {.size = sizeof msg,
                                  .name_space = "default",
                                  .topic = parts[0],
                                  .key = parts[1][0] ? parts[1] : NULL,
                                  .subject = parts[2][0] ? parts[2] : NULL,
                                  .content_type = parts[3][0] ? parts[3] : NULL,
                                  .headers = parts[4][0] ? parts[4] : NULL,
                                  .correlation_id = parts[5][0] ? parts[5] : NULL,
                                  .payload = payload,
                                  .payload_len = len};
    if (!outbox_uuid_parse(id, &msg.id))
        abort();
    struct ob_headers headers;
    struct ob_render render = {.format = OB_FORMAT_BINARY, .generate_trace = true};
    ob_headers_init(&headers);
    ob_render_headers(&render, &ob_wire_http, &msg, &headers);
    for (size_t i = 0; !headers.code && i < headers.count; i++)
        if (strpbrk(headers.at[i].value, "\r\n") || strpbrk(headers.at[i].name, "\r\n: "))
            abort();
    ob_headers_fini(&headers);
    struct ob_buf buf = OB_BUF_INIT;
    ob_render_cloudevent(&buf, &msg, "fuzz");
    envelope(&buf, id);
    ob_buf_reset(&buf);
    ob_render_record(&buf, &msg);
    envelope(&buf, id);
    ob_buf_reset(&buf);
    ob_render_logfmt(&buf, &msg);
    ob_buf_fini(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *parts[6];
    bool texts = true; /* a store takes no others */
    for (int i = 0; i < 6; i++) {
        size_t part_len;
        parts[i] = fuzz_part(&input, &part_len);
        texts = texts && ob_utf8_valid(parts[i], part_len);
    }
    size_t len;
    char *payload = fuzz_rest(&input, &len);
    if (texts)
        render_message(parts, payload, len);
    for (int i = 0; i < 6; i++)
        free(parts[i]);
    free(payload);
    return 0;
}
