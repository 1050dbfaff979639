/* admin.c - see admin.h. The only file that knows libmicrohttpd.
 *
 * Metrics, health and the files of the page are answered at once. A request of the API suspends its connection and goes to the
 * threads of api.h; when it is finished, its connection is resumed and the answer sent. Only this thread calls the library.
 *
 * The number of connections, the time per request (visitors.h), the memory per connection and the size of a body are limited.
 * We run our own thread instead of the library's, because the library's timeouts count from the last
 * byte: a client that sends a byte now and then would stay for ever. */
#include "daemon/admin.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "daemon/api.h"
#include "daemon/page.h"
#include "daemon/visitors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Twice as many as may stay: disconnected visitors take a moment to close. */
enum { CONNECTIONS = 2 * OB_VISITORS, CONNECTION_BYTES = 16 * 1024 };

struct ob_admin {
    struct ob_admin_options set;
    struct MHD_Daemon *daemon;
    struct ob_visitors visitors; /* used by the thread only */
    struct ob_api *api;          /* NULL: there is no store */
    pthread_t thread;
    int wake; /* an eventfd: tells the thread to end, or that requests are finished */
    atomic_bool stop;
};

/* An exchange with a client. The connection's state points to it. */
struct exchange {
    struct ob_api_request request; /* its answer is the answer of any route */
    struct MHD_Connection *connection;
    const char *allow;               /* of a 405 */
    const struct ob_page_file *file; /* what is answered is a file of the page */
    bool suspended, finished, too_large;
};

/* ---- answers without a token ------------------------------------------------------------------------------------- */

static void answer_metrics(struct ob_admin *admin, struct ob_api_request *request)
{
    request->status = MHD_HTTP_OK;
    request->type = "text/plain; version=0.0.4; charset=utf-8";
    ob_metrics_render(admin->set.metrics, &request->answer);
}

static void answer_live(struct ob_admin *admin, struct ob_api_request *request)
{
    request->status =
        ob_health_live_json(admin->set.health, &request->answer) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ob_buf_putc(&request->answer, '\n');
}

static void answer_ready(struct ob_admin *admin, struct ob_api_request *request)
{
    request->status =
        ob_health_ready_json(admin->set.health, &request->answer) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ob_buf_putc(&request->answer, '\n');
}

static const struct route {
    const char *method, *path;
    void (*answer)(struct ob_admin *admin, struct ob_api_request *request);
} routes[] = {
#define OUTBOX_ROUTE(method, path, function, summary) {#method, path, answer_##function},
#define OUTBOX_ENDPOINT(...)
#define OUTBOX_PARAMETER(...)
#include "routes.def"
#undef OUTBOX_ROUTE
#undef OUTBOX_ENDPOINT
#undef OUTBOX_PARAMETER
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

static bool reads(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* True if the exchange has its answer: of a route without a token, of a file, or an error. */
static bool answer_plain(struct ob_admin *admin, struct exchange *exchange, const char *method, const char *path)
{
    struct ob_api_request *request = &exchange->request;
    const struct route *route = NULL;
    for (size_t i = 0; i < ROUTES && !route; i++)
        route = strcmp(routes[i].path, path) == 0 ? &routes[i] : NULL;
    exchange->file = route || !admin->api ? NULL : ob_page_find(path);
    if (!route && !exchange->file)
        return false;
    if (!reads(method)) {
        exchange->file = NULL;
        exchange->allow = "GET, HEAD";
        ob_api_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED, "INVALID", "method not allowed for this path", NULL);
    } else if (route) {
        route->answer(admin, request);
    }
    return true;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static struct MHD_Response *page_response(struct MHD_Connection *connection, const struct ob_page_file *file,
                                          unsigned *status)
{
    const char *known = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    bool same = known && strcmp(known, file->etag) == 0;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(same ? 0 : file->len, (void *)(uintptr_t)file->data, MHD_RESPMEM_PERSISTENT);
    *status = same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, file->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, file->etag);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"); /* ask again, by the etag */
    MHD_add_response_header(response, "Content-Security-Policy", OB_PAGE_CSP);
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    return response;
}

static struct MHD_Response *api_response(const struct exchange *exchange)
{
    const struct ob_api_request *request = &exchange->request;
    if (!ob_buf_ok(&request->answer))
        return NULL; /* no memory: the connection is closed */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        request->answer.len, (void *)(uintptr_t)ob_buf_text(&request->answer), MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    if (exchange->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, exchange->allow);
    if (request->status == MHD_HTTP_SERVICE_UNAVAILABLE && request->route)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (request->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    return response;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
    unsigned status = exchange->request.status;
    struct MHD_Response *response =
        exchange->file ? page_response(exchange->connection, exchange->file, &status) : api_response(exchange);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    enum MHD_Result sent = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    return sent;
}

/* ---- requests of the API ----------------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const char *copy(struct exchange *exchange, const char *text)
{
    return text ? ob_arena_strdup(&exchange->request.arena, text) : NULL;
}

static enum MHD_Result take_parameter(void *ctx, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                      const char *value, size_t value_len)
{
    struct ob_api_request *request = ctx;
    (void)kind;
    struct ob_api_parameter *parameter = &request->parameters[request->parameter_count];
    bool whole = strlen(name) == name_len && (!value || strlen(value) == value_len); /* no NUL in it */
    if (request->parameter_count < OB_API_PARAMETERS && whole) {
        parameter->name = ob_arena_strdup(&request->arena, name);
        parameter->value = ob_arena_strdup(&request->arena, value ? value : "");
    }
    if (request->parameter_count == OB_API_PARAMETERS || !parameter->name || !parameter->value) {
        ob_api_problem(request, MHD_HTTP_BAD_REQUEST, "INVALID", "too many parameters, or one with a NUL in it", NULL);
        return MHD_NO;
    }
    request->parameter_count++;
    return MHD_YES;
}

static bool is_loopback(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *from = info ? info->client_addr : NULL;
    if (from && from->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    return from && from->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr);
}

/* A name that another page can make to point here would let that page in: see "DNS rebinding". */
static bool names_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++) {
        size_t len = strlen(names[i]);
        if (strncasecmp(host, names[i], len) == 0 && (!host[len] || host[len] == ':'))
            return true;
    }
    return false;
}

/* Pages of others may not call the API: a browser says whose page it is. */
static bool is_own_origin(struct MHD_Connection *connection)
{
    const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN), *host = header(connection, MHD_HTTP_HEADER_HOST);
    const char *name = origin ? strstr(origin, "://") : NULL;
    return !origin || (name && host && strcasecmp(name + 3, host) == 0);
}

/* Takes what the request says of itself, before its body comes. False: it has its answer already. */
static bool take_head(struct exchange *exchange)
{
    static const char bearer[] = "Bearer ";
    struct MHD_Connection *connection = exchange->connection;
    struct ob_api_request *request = &exchange->request;
    const char *authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!is_own_origin(connection)) {
        ob_api_problem(request, MHD_HTTP_FORBIDDEN, "FORBIDDEN", "the request comes from a page of another origin",
                       "use the page that this relay serves");
        return false;
    }
    if (length && (strlen(length) > 9 || strtol(length, NULL, 10) > OB_API_BODY)) {
        ob_api_problem(request, MHD_HTTP_CONTENT_TOO_LARGE, "TOO_LARGE", "the body is larger than 64 kB", NULL);
        return false;
    }
    if (authorization && strncasecmp(authorization, bearer, sizeof bearer - 1) == 0)
        request->token = copy(exchange, authorization + sizeof bearer - 1);
    else if (authorization)
        request->token = ""; /* something else was sent: nobody's token */
    request->content_type = copy(exchange, header(connection, MHD_HTTP_HEADER_CONTENT_TYPE));
    request->local = is_loopback(connection) && names_loopback(header(connection, MHD_HTTP_HEADER_HOST));
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_parameter, request);
    return request->status == 0;
}

/* A new request: finds what answers it. False: no memory, and the connection is closed. */
static bool begin(struct ob_admin *admin, struct MHD_Connection *connection, const char *method, const char *path,
                  struct exchange **out)
{
    struct exchange *exchange = ob_calloc(1, sizeof *exchange);
    *out = exchange;
    if (!exchange)
        return false;
    struct ob_api_request *request = &exchange->request;
    ob_api_request_init(request);
    exchange->connection = connection;
    exchange->finished = true;
    if (answer_plain(admin, exchange, method, path))
        return true;
    request->route = admin->api ? ob_api_find(method, path, &request->arena, &request->id, &exchange->allow) : NULL;
    if (request->route)
        exchange->finished = !take_head(exchange);
    else if (exchange->allow)
        ob_api_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED, "INVALID", "method not allowed for this path", NULL);
    else
        ob_api_problem(request, MHD_HTTP_NOT_FOUND, "UNKNOWN_NAME", "there is nothing at this path",
                       "try /metrics, /live or /ready; the API's routes are in docs/api.md");
    return true;
}

static void take_body(struct exchange *exchange, const char *data, size_t size)
{
    struct ob_buf *body = &exchange->request.body;
    exchange->too_large = exchange->too_large || body->len + size > OB_API_BODY;
    if (!exchange->too_large)
        ob_buf_put(body, data, size);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **state)
{
    struct ob_admin *admin = ctx;
    struct exchange *exchange = *state;
    (void)version;
    if (!exchange) {
        if (!begin(admin, connection, method, url, &exchange))
            return MHD_NO;
        *state = exchange;
        *data_size = 0;
        return exchange->finished ? send_answer(exchange) : MHD_YES;
    }
    if (*data_size > 0) {
        take_body(exchange, data, *data_size);
        *data_size = 0;
        return MHD_YES;
    }
    if (exchange->suspended || exchange->finished) {
        exchange->suspended = false;
        return send_answer(exchange);
    }
    exchange->finished = true;
    if (exchange->too_large || (exchange->request.body.len && !exchange->request.route->has_body)) {
        ob_api_problem(&exchange->request, MHD_HTTP_CONTENT_TOO_LARGE, "TOO_LARGE",
                       exchange->too_large ? "the body is larger than 64 kB" : "this request takes no body", NULL);
        return send_answer(exchange);
    }
    if (!ob_api_submit(admin->api, &exchange->request))
        return send_answer(exchange);
    exchange->suspended = true;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info)
        ob_visitor_busy(info->socket_context);
    MHD_suspend_connection(connection);
    return MHD_YES;
}

/* Sends what the API has finished. */
static void resume_finished(struct ob_admin *admin)
{
    struct ob_api_request *request;
    while (admin->api && (request = ob_api_finished(admin->api)) != NULL)
        MHD_resume_connection(OB_CONTAINER(request, struct exchange, request)->connection);
}

static void on_finished(void *ctx)
{
    struct ob_admin *admin = ctx;
    eventfd_write(admin->wake, 1);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Numeric addresses and localhost only: the listening address must not depend on a name server. */
static bool parse_listen(const char *text, union address *address)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end;
    if (!colon || len < 1 || len >= sizeof host || colon[1] < '0' || colon[1] > '9')
        return false;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end || port > 65535)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    memset(address, 0, sizeof *address);
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host + 1, &address->v6.sin6_addr) == 1;
    }
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &address->v4.sin_addr) == 1;
}

static void on_log(void *ctx, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_log(void *ctx, const char *format, va_list args)
{
    const struct ob_admin *admin = ctx;
    char text[256];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    ob_log(admin->set.log, OB_LOG_DEBUG, "http", OB_STR("error", text));
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct ob_admin *admin = ctx;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        ob_visitor_left(*context);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *from = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *context =
        fd ? ob_visitor_came(&admin->visitors, fd->connect_fd, from ? from->client_addr : NULL, ob_clock_mono_us())
           : NULL;
}

static void on_answered(void *ctx, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    struct ob_admin *admin = ctx;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *exchange = *state;
    (void)code;
    *state = NULL;
    if (exchange)
        ob_api_request_fini(&exchange->request);
    ob_free(exchange);
    if (info && info->socket_context)
        ob_visitor_answered(&admin->visitors, info->socket_context, ob_clock_mono_us());
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static int wait_ms(struct ob_admin *admin)
{
    int64_t now_us = ob_clock_mono_us(), due_us = ob_visitors_sweep(&admin->visitors, now_us);
    int64_t ms = due_us == INT64_MAX ? -1 : (due_us - now_us) / 1000 + 1;
    MHD_UNSIGNED_LONG_LONG own;
    if (MHD_get_timeout(admin->daemon, &own) == MHD_YES && (ms < 0 || own < (MHD_UNSIGNED_LONG_LONG)ms))
        ms = own < 1000 ? (int64_t)own : 1000;
    return (int)ms;
}

static void *run(void *ctx)
{
    struct ob_admin *admin = ctx;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = admin->wake, .events = POLLIN}};
    while (!atomic_load(&admin->stop)) {
        eventfd_t ignored;
        poll(fds, 2, wait_ms(admin));
        if (fds[1].revents)
            eventfd_read(admin->wake, &ignored);
        resume_finished(admin);
        MHD_run(admin->daemon);
    }
    return NULL;
}

/* Signals are blocked in this thread: the loop's thread must receive them. */
static int start_thread(struct ob_admin *admin)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&admin->thread, NULL, run, admin);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* On failure returns false and sets errno. */
static bool start(struct ob_admin *admin, const union address *address)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
    if (address->any.sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    admin->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, on_request, admin, MHD_OPTION_EXTERNAL_LOGGER, on_log, admin,
                         MHD_OPTION_SOCK_ADDR, &address->any, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, admin, MHD_OPTION_NOTIFY_COMPLETED, on_answered,
                         admin, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (!admin->daemon)
        return false;
    int failed = start_thread(admin);
    if (!failed)
        return true;
    MHD_stop_daemon(admin->daemon);
    errno = failed;
    return false;
}

static void admin_free(struct ob_admin *admin)
{
    ob_api_stop(admin->api);
    ob_api_free(admin->api);
    if (admin->wake >= 0)
        close(admin->wake);
    ob_free(admin);
}

static enum outbox_code start_api(struct ob_admin *admin, struct outbox_error *err)
{
    struct ob_api_options api = {.config = admin->set.config,
                                 .log = admin->set.log,
                                 .open = admin->set.open,
                                 .finished = on_finished,
                                 .ctx = admin};
    return admin->set.config ? ob_api_start(&api, &admin->api, err) : OUTBOX_OK;
}

enum outbox_code ob_admin_start(const struct ob_admin_options *options, struct ob_admin **out, struct outbox_error *err)
{
    union address address;
    *out = NULL;
    if (!parse_listen(options->listen, &address))
        return ob_error_set(
            err, OUTBOX_INVALID,
            "admin.listen is \"%.64s\"; it takes an address and a port, e.g. 127.0.0.1:9464 or [::1]:9464",
            options->listen);
    struct ob_admin *admin = ob_calloc(1, sizeof *admin);
    if (!admin)
        return ob_error_nomem(err);
    admin->set = *options;
    admin->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ob_visitors_init(&admin->visitors);
    enum outbox_code code = admin->wake < 0
                                ? ob_error_set(err, OUTBOX_INTERNAL, "cannot create an eventfd: %s", strerror(errno))
                                : start_api(admin, err);
    if (!code && !start(admin, &address))
        code = ob_error_set(err, OUTBOX_INTERNAL,
                            "cannot listen on %.64s: %s; set admin.listen to an address that is free", options->listen,
                            strerror(errno));
    if (code) {
        admin_free(admin);
        return code;
    }
    ob_log(options->log, OB_LOG_INFO, "admin server listening", OB_STR("listen", options->listen),
           OB_INT("port", ob_admin_port(admin)));
    *out = admin;
    return OUTBOX_OK;
}

void ob_admin_stop(struct ob_admin *admin)
{
    if (!admin)
        return;
    atomic_store(&admin->stop, true);
    eventfd_write(admin->wake, 1);
    pthread_join(admin->thread, NULL);
    ob_api_stop(admin->api);
    resume_finished(admin);
    MHD_run(admin->daemon); /* a connection must not be suspended when the library stops */
    MHD_stop_daemon(admin->daemon);
    admin_free(admin);
}

enum outbox_code ob_admin_reload(struct ob_admin *admin, const struct ob_config *config, struct outbox_error *err)
{
    return admin && admin->api ? ob_api_reload(admin->api, config, err) : OUTBOX_OK;
}

int ob_admin_port(const struct ob_admin *admin)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}
