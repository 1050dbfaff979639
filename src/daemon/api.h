/* api.h - the admin API: requests with a token, answered by threads that have stores. Knows no HTTP library: admin.c does.
 *
 * A request belongs to the admin thread until ob_api_submit, to the API until it is returned by ob_api_finished, and then to the
 * admin thread again. At most OB_API_WAITING wait; more are refused, so that a slow database never fills the memory.
 *
 * Who may do what is decided in one place, api.c, from the rows of def/routes.def; and again by the store, which each request enters
 * with its rights and its tenant (ob_store_ops.enter). */
#ifndef OB_DAEMON_API_H
#define OB_DAEMON_API_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "config/config.h"
#include "core/store.h"

#include <jansson.h>

enum { OB_API_WAITING = 16, OB_API_THREADS = 2, OB_API_BODY = 64 * 1024, OB_API_PARAMETERS = 16 };

struct ob_api;
struct ob_api_request;

typedef ob_code ob_api_fn(struct ob_api_request *request, struct outbox_error *err);

struct ob_api_route {
    const char *method, *path;
    ob_api_fn *answer;
    enum ob_role role;
    bool own;      /* for tenants' tokens too */
    bool has_body; /* it takes a document */
    enum ob_rights rights;
    const char *parameters; /* names, separated by spaces */
    unsigned status;
};

extern const struct ob_api_route ob_api_routes[];
extern const size_t ob_api_routes_count;

struct ob_api_parameter {
    const char *name, *value;
};

struct ob_api_request {
    struct ob_list node;
    /* ---- set by the admin thread ---- */
    const struct ob_api_route *route;
    const char *id;    /* the part of the path that stands for {id}; NULL: none. In the arena, like all that follows. */
    const char *token; /* NULL: none was sent */
    const char *content_type; /* NULL: none was sent */
    struct ob_api_parameter parameters[OB_API_PARAMETERS];
    size_t parameter_count;
    bool local; /* from this machine, by a loopback address and name */
    struct ob_buf body;
    struct ob_arena arena;
    /* ---- set by the API ---- */
    struct ob_api *api;
    struct ob_store *store;
    const char *store_name, *store_url, *store_schema; /* schema NULL: the default */
    struct ob_bearer bearer;
    json_t *json; /* the body; an object */
    unsigned status;
    const char *type;
    struct ob_buf answer;
};

void ob_api_request_init(struct ob_api_request *request);
void ob_api_request_fini(struct ob_api_request *request);

/* The route of a path; *id: the part that stands for {id}, in the arena. NULL: there is none; *allow names the method if the path has
 * another one. */
const struct ob_api_route *ob_api_find(const char *method, const char *path, struct ob_arena *arena, const char **id,
                                       const char **allow);

/* Writes an application/problem+json answer. next: what to do; NULL: nothing. */
void ob_api_problem(struct ob_api_request *request, unsigned status, const char *code, const char *detail,
                    const char *next);

struct ob_api_options {
    const struct ob_config *config; /* the stores; borrowed during the call */
    const struct ob_log *log;       /* borrowed; may be NULL */
    bool open;                      /* requests from this machine need no token: `outbox dev` */
    void (*finished)(void *ctx);    /* a request is finished; called by an API thread */
    void *ctx;
};

ob_code ob_api_start(const struct ob_api_options *options, struct ob_api **out,
                     struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Requests that wait are answered with 503. Take them with ob_api_finished before ob_api_free. */
void ob_api_stop(struct ob_api *api);
void ob_api_free(struct ob_api *api);
/* The stores of another configuration, from the next request on. */
ob_code ob_api_reload(struct ob_api *api, const struct ob_config *config, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* False: too many wait; the request is answered with 503. */
bool ob_api_submit(struct ob_api *api, struct ob_api_request *request);
/* A finished request; NULL: none at the moment. */
struct ob_api_request *ob_api_finished(struct ob_api *api);

/* ---- for the handlers ---- */

/* NULL: not given. */
const char *ob_api_parameter(const struct ob_api_request *request, const char *name);
/* The message id in the path. */
ob_code ob_api_id(struct ob_api_request *request, struct outbox_uuid *id, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* A filter from text; NULL: all. A tenant's token gets its tenant added, so that the index serves it. */
ob_code ob_api_filter(struct ob_api_request *request, const char *text, struct ob_filter *filter,
                      struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The actor of an act: the token's name. reason: from the body. */
struct ob_actor ob_api_actor(const struct ob_api_request *request);
/* Text of the body; NULL: not there, or null. */
ob_code ob_api_text(const struct ob_api_request *request, const char *name, const char **text,
                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Names and the number of the stores. */
void ob_api_put_stores(const struct ob_api_request *request, struct ob_json *json);
bool ob_api_is_open(const struct ob_api *api);
struct ob_jobs;
struct ob_jobs *ob_api_jobs(struct ob_api *api);

/* One per row of def/routes.def. */
#define OUTBOX_ROUTE(...)
#define OUTBOX_PARAMETER(...)
#define OUTBOX_ENDPOINT(method, path, function, ...) ob_api_fn ob_api_##function;
#include "routes.def"
#undef OUTBOX_ROUTE
#undef OUTBOX_PARAMETER
#undef OUTBOX_ENDPOINT

/* ---- between api.c and api_thread.c ---- */

/* The whole of a request, on an API thread: token, rights, handler. open: as in the options. */
void ob_api_run(struct ob_api_request *request, bool open);

#endif
