/* api.c - see api.h: which route a request has, who may call it, and what is answered when something is wrong. */
#include "daemon/api.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "core/filter.h"
#include "core/names.h"
#include "lib/token.h"
#include "report/report.h"

#include <stdio.h>
#include <string.h>

static const char problem_type[] = "application/problem+json";

/* ---- routes ------------------------------------------------------------------------------------------------------ */

enum { OWN = 1, ALL = 0 };

const struct ob_api_route ob_api_routes[] = {
#define OUTBOX_ROUTE(...)
#define OUTBOX_PARAMETER(...)
#define OUTBOX_ENDPOINT(method, path, function, role, tenant, rights, parameters, body, status, answer, summary) \
    {#method, path, ob_api_##function, OB_ROLE_##role, tenant, sizeof body > 1, OB_RIGHTS_##rights, parameters, status},
#include "routes.def"
#undef OUTBOX_ROUTE
#undef OUTBOX_PARAMETER
#undef OUTBOX_ENDPOINT
};
const size_t ob_api_routes_count = sizeof ob_api_routes / sizeof ob_api_routes[0];

/* Whether a path fits a pattern; the part that stands for {...} goes to *id. */
static bool fits(const char *pattern, const char *path, const char **id, size_t *id_len)
{
    *id = NULL;
    *id_len = 0;
    for (; *pattern && *pattern != '{'; pattern++, path++)
        if (*pattern != *path)
            return false;
    if (!*pattern)
        return !*path;
    *id = path;
    *id_len = strcspn(path, "/");
    return *id_len > 0 && strcmp(strchr(pattern, '}') + 1, path + *id_len) == 0;
}

const struct ob_api_route *ob_api_find(const char *method, const char *path, struct ob_arena *arena, const char **id,
                                       const char **allow)
{
    bool head = strcmp(method, "HEAD") == 0;
    *allow = NULL;
    for (size_t i = 0; i < ob_api_routes_count; i++) {
        const struct ob_api_route *route = &ob_api_routes[i];
        const char *part;
        size_t len;
        if (!fits(route->path, path, &part, &len))
            continue;
        if (strcmp(route->method, head ? "GET" : method) != 0) {
            *allow = *allow && strcmp(*allow, route->method) != 0 ? "GET, HEAD, POST"
                     : strcmp(route->method, "GET") == 0          ? "GET, HEAD"
                                                                  : route->method;
            continue;
        }
        *id = part ? ob_arena_memdup(arena, part, len) : NULL;
        return part && !*id ? NULL : route;
    }
    return NULL;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

void ob_api_request_init(struct ob_api_request *request)
{
    *request = (struct ob_api_request){.type = "application/json"};
    ob_arena_init(&request->arena, 4096);
}

void ob_api_request_fini(struct ob_api_request *request)
{
    json_decref(request->json);
    ob_buf_fini(&request->body);
    ob_buf_fini(&request->answer);
    ob_arena_fini(&request->arena);
}

const char *ob_api_parameter(const struct ob_api_request *request, const char *name)
{
    for (size_t i = 0; i < request->parameter_count; i++)
        if (strcmp(request->parameters[i].name, name) == 0)
            return request->parameters[i].value;
    return NULL;
}

ob_code ob_api_id(struct ob_api_request *request, struct outbox_uuid *id, struct outbox_error *err)
{
    if (outbox_uuid_parse(request->id, id))
        return OUTBOX_OK;
    return ob_error_set(err, OUTBOX_INVALID, "\"%.64s\" is not a message id; an id is a uuid", request->id);
}

ob_code ob_api_filter(struct ob_api_request *request, const char *text, struct ob_filter *filter,
                      struct outbox_error *err)
{
    *filter = (struct ob_filter){0};
    ob_code code = text ? ob_filter_parse(filter, text, ob_clock_wall_us(), &request->arena, err) : OUTBOX_OK;
    if (!code && !filter->tenant_id && request->bearer.tenant_id[0])
        filter->tenant_id = request->bearer.tenant_id;
    return code;
}

ob_code ob_api_text(const struct ob_api_request *request, const char *name, const char **text, struct outbox_error *err)
{
    const json_t *value = json_object_get(request->json, name);
    *text = json_string_value(value);
    if (*text || !value || json_is_null(value))
        return OUTBOX_OK;
    return ob_error_set(err, OUTBOX_INVALID, "\"%s\" must be a text", name);
}

struct ob_actor ob_api_actor(const struct ob_api_request *request)
{
    return (struct ob_actor){.actor = request->bearer.name,
                             .reason = json_string_value(json_object_get(request->json, "reason"))};
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

static const char *title_of(unsigned status)
{
    switch (status) {
    case 400: return "Bad request";
    case 401: return "Token required";
    case 403: return "Forbidden";
    case 404: return "Not found";
    case 405: return "Method not allowed";
    case 409: return "Conflict";
    case 413: return "Request too large";
    case 415: return "Wrong content type";
    case 503: return "Not available now";
    default: return "Internal error";
    }
}

void ob_api_problem(struct ob_api_request *request, unsigned status, const char *code, const char *detail,
                    const char *next)
{
    struct ob_json json;
    ob_buf_reset(&request->answer);
    request->status = status;
    request->type = problem_type;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "type", "about:blank");
    ob_json_text(&json, "title", title_of(status));
    ob_json_count(&json, "status", status);
    ob_json_text(&json, "code", code);
    ob_json_text(&json, "detail", detail);
    ob_json_text(&json, "next", next);
    ob_json_end(&json);
}

static unsigned status_of(enum outbox_code code)
{
    switch (code) {
    case OUTBOX_INVALID:
    case OUTBOX_TENANT:
    case OUTBOX_DEDUPE:
    case OUTBOX_UNSUPPORTED: return 400;
    case OUTBOX_FORBIDDEN: return 403;
    case OUTBOX_UNKNOWN_MESSAGE:
    case OUTBOX_UNKNOWN_NAME: return 404;
    case OUTBOX_LOCKED:
    case OUTBOX_LEASE_LOST: return 409;
    case OUTBOX_TOO_LARGE: return 413;
    case OUTBOX_CONFLICT:
    case OUTBOX_BUSY:
    case OUTBOX_NOMEM:
    case OUTBOX_FULL:
    case OUTBOX_READONLY:
    case OUTBOX_RESTORED:
    case OUTBOX_SCHEMA:
    case OUTBOX_UNREACHABLE: return 503;
    default: return 500;
    }
}

static void fail(struct ob_api_request *request, const struct outbox_error *err)
{
    ob_api_problem(request, status_of(err->code), outbox_code_name(err->code), err->text, ob_code_todo(err->code));
}

/* ---- who may ----------------------------------------------------------------------------------------------------- */

/* False after it wrote the problem. */
static bool authenticate(struct ob_api_request *request, bool open)
{
    struct outbox_error err = {0};
    if (!request->token && open && request->local) {
        request->bearer = (struct ob_bearer){.role = OB_ROLE_ADMIN, .name = "dev"};
        return true;
    }
    if (request->token && ob_token_check(request->store, request->token, &request->bearer, &err)) {
        fail(request, &err);
        return false;
    }
    if (request->bearer.role != OB_ROLE_NONE)
        return true;
    ob_api_problem(request, 401, "UNAUTHENTICATED",
                   request->token ? "the token is not known, or it is revoked or expired" : "the request has no token",
                   "outbox token create NAME --role viewer prints one; send it as: Authorization: Bearer obx_...");
    return false;
}

/* False after it wrote the problem. */
static bool authorize(struct ob_api_request *request)
{
    const struct ob_api_route *route = request->route;
    char detail[200];
    if (request->bearer.tenant_id[0] && !route->own) {
        ob_api_problem(request, 403, "FORBIDDEN", "this is about what all tenants share, and the token is a tenant's",
                       "use a token without a tenant");
        return false;
    }
    if (request->bearer.role >= route->role)
        return true;
    snprintf(detail, sizeof detail, "this needs the role %s, and the token %s has the role %s",
             ob_role_name(route->role), request->bearer.name, ob_role_name(request->bearer.role));
    ob_api_problem(request, 403, "FORBIDDEN", detail, "ask for a token with that role: outbox token create");
    return false;
}

/* ---- what was sent ----------------------------------------------------------------------------------------------- */

static bool names_parameter(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at++)
        if (len && (at == names || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    return false;
}

static ob_code check_parameters(const struct ob_api_request *request, struct outbox_error *err)
{
    for (size_t i = 0; i < request->parameter_count; i++) {
        const struct ob_api_parameter *parameter = &request->parameters[i];
        if (!names_parameter(request->route->parameters, parameter->name))
            return ob_error_set(err, OUTBOX_INVALID, "unknown parameter \"%.64s\"; this path takes: %s",
                                parameter->name, *request->route->parameters ? request->route->parameters : "none");
        if (!ob_utf8_valid(parameter->value, strlen(parameter->value)))
            return ob_error_set(err, OUTBOX_INVALID, "the parameter \"%s\" is not UTF-8", parameter->name);
        for (size_t j = 0; j < i; j++)
            if (strcmp(request->parameters[j].name, parameter->name) == 0)
                return ob_error_set(err, OUTBOX_INVALID, "the parameter \"%s\" is given twice", parameter->name);
    }
    if (request->id && !ob_utf8_valid(request->id, strlen(request->id)))
        return ob_error_set(err, OUTBOX_INVALID, "the path is not UTF-8");
    return OUTBOX_OK;
}

/* False after it wrote the problem. */
static bool read_body(struct ob_api_request *request)
{
    static const char json[] = "application/json";
    const char *type = request->content_type;
    json_error_t at;
    char detail[300];
    if (!request->route->has_body)
        return true;
    size_t len = type ? strcspn(type, "; ") : 0;
    if (len != sizeof json - 1 || strncasecmp(type, json, len) != 0) {
        ob_api_problem(request, 415, "INVALID", "the body must be JSON",
                       "send it with: Content-Type: application/json");
        return false;
    }
    request->json = json_loadb(ob_buf_text(&request->body), request->body.len, JSON_REJECT_DUPLICATES, &at);
    if (json_is_object(request->json))
        return true;
    snprintf(detail, sizeof detail, "the body is not a JSON object%s%.200s", request->json ? "" : ": ",
             request->json ? "" : at.text);
    ob_api_problem(request, 400, "INVALID", detail, "send one JSON object");
    return false;
}

void ob_api_run(struct ob_api_request *request, bool open)
{
    struct outbox_error err = {0};
    if (!authenticate(request, open) || !authorize(request))
        return;
    ob_code code = check_parameters(request, &err);
    if (code) {
        fail(request, &err);
        return;
    }
    if (!read_body(request))
        return;
    const struct ob_store_ops *ops = request->store->ops;
    request->status = request->route->status;
    if (request->route->rights == OB_RIGHTS_NONE) {
        code = request->route->answer(request, &err);
        if (code)
            fail(request, &err);
        return;
    }
    code = ops->enter(request->store, request->route->rights,
                      request->bearer.tenant_id[0] ? request->bearer.tenant_id : NULL, &err);
    if (!code) {
        code = request->route->answer(request, &err);
        ob_code left = ops->leave(request->store, !code, code ? NULL : &err);
        code = code ? code : left;
    }
    if (code)
        fail(request, &err);
    else if (!ob_buf_ok(&request->answer))
        ob_api_problem(request, 503, "NOMEM", "out of memory", "try again");
}
