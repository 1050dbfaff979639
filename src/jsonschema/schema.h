/* schema.h - JSON Schema: compile once, check many payloads (docs/jsonschema.md says what is understood).
 *
 * Draft 7, and the 2019-09 and 2020-12 spellings of the same keywords. A compiled schema never changes: threads may share
 * it. Nothing is fetched; no payload, however made, costs more than its length allows. This room knows base only: the
 * relay, the command line and the library all stand above it. */
#ifndef OB_JSONSCHEMA_SCHEMA_H
#define OB_JSONSCHEMA_SCHEMA_H

#include <outbox/outbox.h>

struct ob_jsonschema;

/* Where a schema is wrong. Lines and columns count from 1; 0 when the file could not be read at all. */
struct ob_jsonschema_place {
    unsigned line, column;
    char pointer[256]; /* JSON pointer in the schema; "" is its root */
};

/* Why a payload fails. Long pointers are cut. No value of the payload is repeated here, only names. */
struct ob_jsonschema_fault {
    char path[256]; /* JSON pointer in the payload; "" is the whole of it */
    char rule[256]; /* JSON pointer in the schema; "" when the payload is no JSON or a limit was hit */
    char text[512]; /* for people: "/amount: must be > 0 (exclusiveMinimum)" */
};

/* name is the file's, for messages. OUTBOX_INVALID: err->text is "order.json:7:18: /properties/amount/minimum: must be a
 * number, not a string", and place, when it is not NULL, says the same in parts. Otherwise OUTBOX_OK or OUTBOX_NOMEM. The
 * text need not outlive the call. */
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
