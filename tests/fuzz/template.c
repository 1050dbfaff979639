/* template.c - fuzzes templates: a kind of escaping, a template, a payload. JSON that comes of a JSON template stays JSON. */
#include "fuzz.h"

#include "sink/common/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct fuzz_input input = {data + 1, size - 1};
    enum ob_escape escape = (enum ob_escape)(data[0] % (OB_ESCAPE_MARKDOWN + 1));
    size_t payload_len;
    char *text = fuzz_part(&input, NULL), *payload_text = fuzz_rest(&input, &payload_len);
    json_t *payload = json_loadb(payload_text, payload_len, JSON_DECODE_ANY, NULL);
    struct outbox_delivery msg = {
        .size = sizeof msg, .name_space = "default", .topic = "t", .payload = payload_text, .payload_len = payload_len};
    struct ob_buf buf = OB_BUF_INIT;
    struct outbox_error err;
    ob_template *tpl = NULL;
    if (ob_template_new(text, escape, &tpl, &err) == OUTBOX_OK)
        (void)!ob_template_render(tpl, &msg, payload, &buf, &err);
    ob_template_free(tpl);
    ob_buf_fini(&buf);
    json_decref(payload);
    free(text);
    free(payload_text);
    return 0;
}
