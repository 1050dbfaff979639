/* schema.h - JSON Schema: compile once, check many payloads (docs/jsonschema.md lists what is supported).
 *
 * Draft 7, and the 2019-09 and 2020-12 spellings of the same keywords. A compiled schema never changes, so threads may
 * share it. Nothing is fetched, and the cost of a check is bounded by the length of the payload. This room knows base
 * only: the relay, the command line and the library all depend on it. */
#ifndef OB_JSONSCHEMA_SCHEMA_H
#define OB_JSONSCHEMA_SCHEMA_H

#include <outbox/outbox.h>

struct ob_jsonschema;

/* The position of an error in a schema. Lines and columns count from 1; 0 when the file could not be read at all. */
struct ob_jsonschema_place {
    unsigned line, column;
    char pointer[256]; /* JSON pointer into the schema; "": its root */
};

/* Why a payload is invalid. Long pointers are cut. Values of the payload are not repeated here, only names. */
struct ob_jsonschema_fault {
    char path[256]; /* JSON pointer into the payload; "": the whole payload */
    char rule[256]; /* JSON pointer into the schema; "": the payload is not JSON, or a limit was reached */
    char text[512]; /* readable text: "/amount: must be > 0 (exclusiveMinimum)" */
};

/* name: of the file, for messages. OUTBOX_INVALID: err->text is "order.json:7:18: /properties/amount/minimum: must be a
 * number, not a string", and place, unless NULL, holds the position. Otherwise OUTBOX_OK or OUTBOX_NOMEM. The text need
 * not outlive the call. */
enum outbox_code ob_jsonschema_compile(const char *text, size_t len, const char *name, struct ob_jsonschema **schema,
                                       struct ob_jsonschema_place *place, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same from a file of at most OB_JSONSCHEMA_FILE_MAX bytes. */
enum outbox_code ob_jsonschema_load(const char *path, struct ob_jsonschema **schema, struct ob_jsonschema_place *place,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_jsonschema_free(struct ob_jsonschema *schema);

enum { OB_JSONSCHEMA_FILE_MAX = 4 * 1024 * 1024 };

/* OUTBOX_OK, OUTBOX_INVALID with the fault filled, or OUTBOX_NOMEM, which says nothing about the payload. */
enum outbox_code ob_jsonschema_check(const struct ob_jsonschema *schema, const void *payload, size_t len,
                                     struct ob_jsonschema_fault *fault) OUTBOX_MUST_CHECK;

#endif
