/* api_act.c - the routes that change what all messages share: pauses, tunings, settings, tokens; and sending and erasing. Acts on
 * messages are jobs: api_job.c. Every act is recorded with the token's name. */
#include "daemon/api.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/when.h"
#include "core/names.h"
#include "lib/token.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* Texts of the body. Empty is the same as not given: forms send what was not filled in. False after it set err. */
struct field {
    const char *name, **text;
};

static ob_code read_texts(const struct ob_api_request *request, const struct field *fields, size_t count,
                          struct outbox_error *err)
{
    for (size_t i = 0; i < count; i++) {
        ob_code code = ob_api_text(request, fields[i].name, fields[i].text, err);
        if (code)
            return code;
        if (*fields[i].text && !**fields[i].text)
            *fields[i].text = NULL;
    }
    return OUTBOX_OK;
}
#define READ_TEXTS(request, fields, err) read_texts(request, fields, sizeof fields / sizeof fields[0], err)

static ob_code missing(const char *name, struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is missing", name);
}

/* ---- pauses ------------------------------------------------------------------------------------------------------ */

static ob_code change_pause(struct ob_api_request *request, bool resume, struct outbox_error *err)
{
    struct ob_pause_row scope = {0};
    const char *reason;
    const struct field fields[] = {
        {"namespace", &scope.name_space}, {"topic", &scope.topic}, {"sink", &scope.sink}, {"reason", &reason}};
    const struct ob_store_ops *ops = request->store->ops;
    struct ob_pauses pauses = {0};
    struct ob_json json;
    ob_code code = READ_TEXTS(request, fields, err);
    if (code)
        return code;
    if (scope.topic && !scope.name_space)
        scope.name_space = "default";
    code = ob_pauses_read(request->store, &pauses, err);
    bool had = ob_pauses_have(&pauses, &scope);
    ob_pauses_fini(&pauses);
    if (!code && resume && !had)
        code = ob_error_set(err, OUTBOX_UNKNOWN_NAME, "there is no such pause; GET /api/v1/status lists them");
    struct ob_actor actor = ob_api_actor(request);
    if (!code)
        code = resume ? ops->resume(request->store, scope.name_space, scope.topic, scope.sink, &actor, err)
                      : ops->pause(request->store, scope.name_space, scope.topic, scope.sink, &actor, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "action", resume ? "resume" : "pause");
    ob_json_key(&json, "done"), ob_json_bool(&json, true);
    ob_json_key(&json, "changed"), ob_json_bool(&json, resume || !had);
    ob_json_text(&json, "namespace", scope.name_space);
    ob_json_text(&json, "topic", scope.topic);
    ob_json_text(&json, "sink", scope.sink);
    ob_json_end(&json);
    return OUTBOX_OK;
}

ob_code ob_api_pause(struct ob_api_request *request, struct outbox_error *err)
{
    return change_pause(request, false, err);
}

ob_code ob_api_resume(struct ob_api_request *request, struct outbox_error *err)
{
    return change_pause(request, true, err);
}

/* ---- tunings and settings ---------------------------------------------------------------------------------------- */

ob_code ob_api_tune(struct ob_api_request *request, struct outbox_error *err)
{
    const char *name, *value, *reason;
    const struct field fields[] = {{"name", &name}, {"value", &value}, {"reason", &reason}};
    struct ob_json json;
    ob_code code = READ_TEXTS(request, fields, err);
    if (!code && !name)
        code = missing("name", err);
    struct ob_actor actor = ob_api_actor(request);
    if (!code)
        code = request->store->ops->tune(request->store, name, value, &actor, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "name", name);
    ob_json_text(&json, "value", value);
    ob_json_end(&json);
    return OUTBOX_OK;
}

static void put_setting(struct ob_json *json, const char *name_space, const char *name, const char *value)
{
    ob_json_object(json);
    ob_json_text(json, "namespace", name_space);
    ob_json_text(json, "name", name);
    ob_json_text(json, "value", value);
    ob_json_end(json);
}

static bool list_setting(void *ctx, const char *name_space, const char *name, const char *value)
{
    put_setting(ctx, name_space, name, value);
    return true;
}

ob_code ob_api_settings(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_key(&json, "settings");
    ob_json_array(&json);
    ob_code code = request->store->ops->settings(request->store, list_setting, &json, err);
    if (code)
        return code;
    ob_json_end(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}

ob_code ob_api_configure(struct ob_api_request *request, struct outbox_error *err)
{
    const char *name_space, *name, *value, *reason;
    const struct field fields[] = {{"namespace", &name_space}, {"name", &name}, {"value", &value}, {"reason", &reason}};
    struct ob_json json;
    ob_code code = READ_TEXTS(request, fields, err);
    if (!code && !name)
        code = missing("name", err);
    struct ob_actor actor = ob_api_actor(request);
    name_space = !code && name_space ? name_space : "*";
    if (!code)
        code = request->store->ops->configure(request->store, name_space, name, value, &actor, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    put_setting(&json, name_space, name, value);
    return OUTBOX_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static bool list_token(void *ctx, const struct ob_token_row *row)
{
    ob_json_token(ctx, row);
    return true;
}

ob_code ob_api_tokens(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_key(&json, "tokens");
    ob_json_array(&json);
    ob_code code = request->store->ops->tokens(request->store, list_token, &json, err);
    if (code)
        return code;
    ob_json_end(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}

ob_code ob_api_token_create(struct ob_api_request *request, struct outbox_error *err)
{
    const char *role, *expires, *tenant, *reason;
    struct ob_token token = {0};
    const struct field fields[] = {
        {"name", &token.name}, {"role", &role}, {"tenant", &tenant}, {"expires", &expires}, {"reason", &reason}};
    struct outbox_uuid id;
    struct ob_json json;
    char text[OB_TOKEN_TEXT];
    ob_code code = READ_TEXTS(request, fields, err);
    if (code)
        return code;
    token.role = ob_role_find(role);
    token.tenant_id = tenant;
    if (!token.name)
        return missing("name", err);
    if (token.role == OB_ROLE_NONE)
        return ob_error_set(err, OUTBOX_INVALID, "\"role\" must be viewer, operator or admin");
    if (tenant && !outbox_uuid_parse(tenant, &id))
        return ob_error_set(err, OUTBOX_INVALID, "\"tenant\" must be a uuid");
    if (expires && !ob_when_to_come(expires, ob_clock_wall_us(), &token.expires_at_us))
        return ob_error_set(err, OUTBOX_INVALID, "\"expires\" must be a time such as 90d, 12h or 2030-01-31T00:00:00Z");
    struct ob_actor actor = ob_api_actor(request);
    code = ob_token_create(request->store, &token, &actor, text, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "token", text);
    ob_json_text(&json, "name", token.name);
    ob_json_text(&json, "role", role);
    ob_json_text(&json, "tenant_id", tenant);
    ob_json_time(&json, "expires_at", token.expires_at_us);
    ob_json_end(&json);
    explicit_bzero(text, sizeof text);
    return OUTBOX_OK;
}

ob_code ob_api_token_revoke(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_actor actor = ob_api_actor(request);
    struct ob_json json;
    ob_code code = request->store->ops->token_revoke(request->store, request->id, &actor, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "name", request->id);
    ob_json_key(&json, "revoked"), ob_json_bool(&json, true);
    ob_json_end(&json);
    return OUTBOX_OK;
}

/* ---- sending and erasing ----------------------------------------------------------------------------------------- */

static ob_code read_time(const char *name, const char *text, int64_t *at_us, struct outbox_error *err)
{
    if (!text || ob_when_to_come(text, ob_clock_wall_us(), at_us))
        return OUTBOX_OK;
    return ob_error_set(err, OUTBOX_INVALID, "\"%s\" must be a time such as +5m or 2030-01-31T00:00:00Z", name);
}

static ob_code read_number(const struct ob_api_request *request, const char *name, int least, int most, int *number,
                           struct outbox_error *err)
{
    const json_t *value = json_object_get(request->json, name);
    if (!value || json_is_null(value))
        return OUTBOX_OK;
    json_int_t found = json_integer_value(value);
    if (!json_is_integer(value) || found < least || found > most)
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" must be a whole number from %d to %d", name, least, most);
    *number = (int)found;
    return OUTBOX_OK;
}

/* A part of the body as JSON text, in the arena; NULL: not there. */
static ob_code read_json(struct ob_api_request *request, const char *name, const char **text, struct outbox_error *err)
{
    const json_t *value = json_object_get(request->json, name);
    *text = NULL;
    if (!value)
        return OUTBOX_OK;
    char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (dumped)
        *text = ob_arena_strdup(&request->arena, dumped);
    free(dumped);
    return *text ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code read_message(struct ob_api_request *request, struct outbox_message *msg, struct outbox_error *err)
{
    const char *deliver_after, *expires_at, *payload = NULL;
    const struct field fields[] = {
        {"topic", &msg->topic},           {"namespace", &msg->name_space},          {"key", &msg->key},
        {"dedupe_key", &msg->dedupe_key}, {"tenant_id", &msg->tenant_id},           {"subject", &msg->subject},
        {"recipient", &msg->recipient},   {"correlation_id", &msg->correlation_id}, {"deliver_after", &deliver_after},
        {"expires_at", &expires_at}};
    ob_code code = READ_TEXTS(request, fields, err);
    if (!code && !msg->topic)
        code = missing("topic", err);
    if (!code)
        code = read_time("deliver_after", deliver_after, &msg->deliver_after_us, err);
    if (!code)
        code = read_time("expires_at", expires_at, &msg->expires_at_us, err);
    if (!code)
        code = read_number(request, "priority", 0, 9, &msg->priority, err);
    if (!code)
        code = read_number(request, "max_attempts", 1, 1000, &msg->max_attempts, err);
    if (!code)
        code = read_json(request, "payload", &payload, err);
    if (!code && !payload)
        code = missing("payload", err);
    if (!code && !json_is_null(json_object_get(request->json, "headers")))
        code = read_json(request, "headers", &msg->headers, err);
    msg->payload = payload;
    msg->payload_len = payload ? strlen(payload) : 0;
    return code;
}

ob_code ob_api_send(struct ob_api_request *request, struct outbox_error *err)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt;
    struct ob_json json;
    char id[37];
    ob_code code = read_message(request, &msg, err);
    if (!code)
        code = request->store->ops->enqueue(request->store, &msg, &receipt, err);
    if (code)
        return code;
    outbox_uuid_format(&receipt.id, id);
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "id", id);
    ob_json_key(&json, "created"), ob_json_bool(&json, receipt.created);
    ob_json_key(&json, "seq");
    if (receipt.seq)
        ob_json_int(&json, receipt.seq);
    else
        ob_json_null(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}

ob_code ob_api_erase(struct ob_api_request *request, struct outbox_error *err)
{
    const char *tenant, *reason;
    const struct field fields[] = {{"tenant", &tenant}, {"reason", &reason}};
    struct outbox_uuid id;
    struct ob_json json;
    int64_t removed = 0;
    ob_code code = READ_TEXTS(request, fields, err);
    if (!code && (!tenant || !outbox_uuid_parse(tenant, &id)))
        code = ob_error_set(err, OUTBOX_INVALID, "\"tenant\" must be the uuid of the tenant to erase");
    struct ob_actor actor = ob_api_actor(request);
    if (!code)
        code = request->store->ops->erase_tenant(request->store, tenant, &actor, &removed, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_count(&json, "count", removed);
    ob_json_end(&json);
    return OUTBOX_OK;
}

/* ---- groups of failures ------------------------------------------------------------------------------------------ */

static bool list_group(void *ctx, const struct ob_group_row *row)
{
    ob_json_group(ctx, row);
    return true;
}

ob_code ob_api_groups(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_key(&json, "groups");
    ob_json_array(&json);
    ob_code code = request->store->ops->groups(request->store, 0, list_group, &json, err);
    if (code)
        return code;
    ob_json_end(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}
