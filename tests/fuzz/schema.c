/* schema.c - fuzzes JSON Schema: the first part is a schema, the rest a payload for it. */
#include "fuzz.h"

#include "jsonschema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t schema_len, payload_len;
    char *text = fuzz_part(&input, &schema_len), *payload = fuzz_rest(&input, &payload_len);
    struct ob_jsonschema *schema = NULL;
    struct ob_jsonschema_place place;
    struct ob_jsonschema_fault fault;
    struct outbox_error err;
    if (ob_jsonschema_compile(text, schema_len, "fuzz.json", &schema, &place, &err) == OUTBOX_OK) {
        enum outbox_code code = ob_jsonschema_check(schema, payload, payload_len, &fault);
        if (code != OUTBOX_OK && code != OUTBOX_INVALID)
            abort();
    }
    ob_jsonschema_free(schema);
    free(text);
    free(payload);
    return 0;
}
