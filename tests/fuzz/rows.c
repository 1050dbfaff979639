/* rows.c - fuzzes the answer to a claim: rows of a PostgreSQL server that says anything. Each value is a length and its bytes;
 * a length of 255 is null. What comes of it must be readable to its last byte. */
#include "fuzz.h"

#include "core/batch.h"
#include "store/pg/pg.h"

enum { COLUMNS = 33, ROWS = 4, NONE = 255 };

static size_t touched; /* so that no read is left out */

static void touch(const char *text)
{
    touched += text ? strlen(text) : 0;
}

static PGresult *result_of(struct fuzz_input *input)
{
    PGresult *res = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[COLUMNS];
    char name[] = "c";
    memset(columns, 0, sizeof columns);
    for (int i = 0; i < COLUMNS; i++) {
        columns[i].name = name;
        columns[i].format = 1;
    }
    if (!res || !PQsetResultAttrs(res, COLUMNS, columns))
        abort();
    for (int row = 0; row < ROWS && input->left > 0; row++)
        for (int i = 0; i < COLUMNS; i++) {
            int len = input->left > 0 ? *input->at : NONE;
            if (input->left > 0) {
                input->at++;
                input->left--;
            }
            if (len != NONE && (size_t)len > input->left)
                len = (int)input->left;
            char value[NONE + 1] = {0};
            if (len != NONE) {
                memcpy(value, input->at, (size_t)len);
                input->at += len;
                input->left -= (size_t)len;
            }
            if (!PQsetvalue(res, row, i, len == NONE ? NULL : value, len == NONE ? -1 : len))
                abort();
        }
    return res;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct outbox_error err;
    struct outbox_batch *batch = NULL;
    if (ob_pg_claim_read(result_of(&input), &batch, &err))
        return 0;
    for (size_t i = 0; i < batch->size; i++) {
        const struct outbox_delivery *msg = &batch->items[i];
        const char *texts[] = {msg->name_space, msg->topic,   msg->tenant_id,      msg->key,          msg->dedupe_key,
                               msg->subject,    msg->headers, msg->correlation_id, msg->content_type, msg->recipient};
        for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++)
            touch(texts[n]);
        for (size_t n = 0; n < msg->payload_len; n++)
            touched += ((const unsigned char *)msg->payload)[n];
    }
    batch->free(batch);
    return 0;
}
