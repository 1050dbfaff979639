/* jsonschema_bench.c - what a check by JSON Schema costs: microseconds per payload of 200 bytes. Prints one line of JSON. */
#include "jsonschema/schema.h"

#include <stdio.h>
#include <time.h>

static const char schema_text[] =
    "{\"type\":\"object\",\"required\":[\"id\",\"amount\",\"currency\",\"to\"],\"properties\":{\"id\":{\"type\":\"string\","
    "\"format\":\"uuid\"},\"amount\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"multipleOf\":0.01},\"currency\":{\"type\":"
    "\"string\",\"pattern\":\"^[A-Z]{3}$\"},\"to\":{\"oneOf\":[{\"required\":[\"iban\"]},{\"required\":[\"email\"],"
    "\"properties\":{\"email\":{\"format\":\"email\"}}}]},\"at\":{\"format\":\"date-time\"},\"lines\":{\"items\":{\"$ref\":"
    "\"#/definitions/line\"}}},\"definitions\":{\"line\":{\"properties\":{\"sku\":{\"maxLength\":20},\"n\":{\"type\":"
    "\"integer\",\"minimum\":1}}}},\"additionalProperties\":false}";

static const char payload[] =
    "{\"id\":\"0190b3c8-7e0a-7cc3-8f3e-3b1f0a000001\",\"amount\":129.90,\"currency\":\"EUR\","
    "\"to\":{\"email\":\"joe@shop.example\"},\"at\":\"2024-05-01T12:00:00Z\",\"lines\":[{\"sku\":"
    "\"A-1\",\"n\":2},{\"sku\":\"B-22\",\"n\":1}]}";

int main(void)
{
    enum { ROUNDS = 200000 };
    struct ob_jsonschema *schema;
    struct outbox_error err;
    struct ob_jsonschema_fault fault;
    if (ob_jsonschema_compile(schema_text, sizeof schema_text - 1, "bench", &schema, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    clock_t start = clock(); /* of this process: neighbours do not count */
    for (int i = 0; i < ROUNDS; i++)
        if (ob_jsonschema_check(schema, payload, sizeof payload - 1, &fault)) {
            fprintf(stderr, "%s\n", fault.text);
            return 1;
        }
    double each = (double)(clock() - start) * 1e6 / CLOCKS_PER_SEC / ROUNDS;
    printf("{\"bench\":\"schema\",\"payload_bytes\":%zu,\"rounds\":%d,\"us_per_payload\":%.2f}\n", sizeof payload - 1,
           ROUNDS, each);
    ob_jsonschema_free(schema);
    return 0;
}
