/* request.c - see request.h. */
#include "store/pg/request.h"

#include <assert.h>

static void clear_results(struct ob_pg_request *request)
{
    for (int i = 0; i < OB_PG_PARTS_MAX; i++) {
        PQclear(request->parts[i].res);
        request->parts[i].res = NULL;
    }
    PQclear(request->failure);
    request->failure = NULL;
    request->answered = 0;
}

void ob_pg_request_begin(struct ob_pg_request *request, int64_t deadline_us)
{
    assert(request->state == OB_PG_IDLE);
    request->count = 0;
    request->deadline_us = deadline_us;
    request->err = (struct outbox_error){.code = OUTBOX_OK};
}

struct ob_pg_params *ob_pg_request_add(struct ob_pg_request *request, enum ob_pg_stmt which)
{
    assert(request->count < OB_PG_PARTS_MAX);
    struct ob_pg_part *part = &request->parts[request->count++];
    part->which = which;
    part->preparing = false;
    ob_pg_params_init(&part->params, &part->scratch);
    part->params.copies = true;
    return &part->params;
}

bool ob_pg_request_seal(struct ob_pg_request *request)
{
    for (int i = 0; i < request->count; i++)
        if (!ob_pg_params_seal(&request->parts[i].params))
            return false;
    return true;
}

void ob_pg_request_fail(struct ob_pg_request *request, const struct outbox_error *err)
{
    clear_results(request);
    request->err = *err;
    request->state = OB_PG_DONE;
}

void ob_pg_request_queue(struct ob_pg_request *request)
{
    clear_results(request);
    request->state = OB_PG_QUEUED;
}

/* The rows of each part, and the first failure. Rows of the last part may be followed by a
 * failure: that of the commit. */
void ob_pg_request_keep(struct ob_pg_request *request, PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);
    struct ob_pg_part *part = request->answered < request->count ? &request->parts[request->answered] : NULL;
    if (status == PGRES_COMMAND_OK && part)
        part->preparing = false;
    if (status == PGRES_TUPLES_OK && part && !request->failure) {
        part->res = res;
        request->answered++;
    } else if ((status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) && !request->failure) {
        request->failure = res;
    } else {
        PQclear(res);
    }
}

PGresult *ob_pg_request_take(struct ob_pg_request *request, int part)
{
    PGresult *res = request->parts[part].res;
    request->parts[part].res = NULL;
    return res;
}

void ob_pg_request_reset(struct ob_pg_request *request)
{
    clear_results(request);
    request->state = OB_PG_IDLE;
    request->repeated = false;
    request->err = (struct outbox_error){.code = OUTBOX_OK};
}

void ob_pg_request_fini(struct ob_pg_request *request)
{
    ob_pg_request_reset(request);
    for (int i = 0; i < OB_PG_PARTS_MAX; i++)
        ob_buf_fini(&request->parts[i].scratch);
}
