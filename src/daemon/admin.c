/* admin.c - see admin.h. The only file that knows libmicrohttpd.
 *
 * The number of connections, the time per request (visitors.h) and the memory per connection are limited; requests with a
 * body are refused. We run our own thread instead of the library's, because the library's timeouts count from the last
 * byte: a client that sends a byte now and then would stay for ever. */
#include "daemon/admin.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
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
    pthread_t thread;
    int wake; /* an eventfd: tells the thread to end */
    atomic_bool stop;
};

struct answer {
    unsigned status;
    const char *type;
    struct ob_buf body;
};

static const char json_type[] = "application/json";

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void answer_metrics(struct ob_admin *admin, struct answer *answer)
{
    answer->status = MHD_HTTP_OK;
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    ob_metrics_render(admin->set.metrics, &answer->body);
}

static void answer_live(struct ob_admin *admin, struct answer *answer)
{
    answer->status = ob_health_live_json(admin->set.health, &answer->body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ob_buf_putc(&answer->body, '\n');
}

static void answer_ready(struct ob_admin *admin, struct answer *answer)
{
    answer->status =
        ob_health_ready_json(admin->set.health, &answer->body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ob_buf_putc(&answer->body, '\n');
}

static void answer_error(struct answer *answer, unsigned status, const char *text)
{
    struct ob_json json;
    ob_buf_reset(&answer->body);
    answer->status = status;
    answer->type = json_type;
    ob_json_init(&json, &answer->body);
    ob_json_object(&json);
    ob_json_key(&json, "error");
    ob_json_string(&json, text);
    ob_json_end(&json);
    ob_buf_putc(&answer->body, '\n');
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

static const struct route {
    const char *method, *path;
    void (*answer)(struct ob_admin *admin, struct answer *answer);
} routes[] = {
#define OUTBOX_ROUTE(method, path, function, summary) {#method, path, answer_##function},
#include "routes.def"
#undef OUTBOX_ROUTE
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

static bool takes(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Sets *allow when the path exists, but not for this method. */
static const struct route *find(const char *method, const char *path, const char **allow)
{
    *allow = NULL;
    for (size_t i = 0; i < ROUTES; i++) {
        if (strcmp(routes[i].path, path) != 0)
            continue;
        if (takes(&routes[i], method))
            return &routes[i];
        *allow = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
    }
    return NULL;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *answer, const char *allow)
{
    if (!ob_buf_ok(&answer->body))
        return MHD_NO; /* no memory: the connection is closed */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->body.len, (void *)(uintptr_t)ob_buf_text(&answer->body), MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    enum MHD_Result sent = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **state)
{
    struct ob_admin *admin = ctx;
    struct answer answer = {.type = json_type};
    const char *allow;
    (void)version;
    (void)data;
    (void)state;
    const struct route *route = find(method, url, &allow);
    if (route)
        route->answer(admin, &answer);
    else if (allow)
        answer_error(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed for this path");
    else
        answer_error(&answer, MHD_HTTP_NOT_FOUND, "not found; try /metrics, /live or /ready");
    *data_size = 0;
    enum MHD_Result sent = send_answer(connection, &answer, allow);
    ob_buf_fini(&answer.body);
    return sent;
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
    (void)state;
    (void)code;
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
        poll(fds, 2, wait_ms(admin));
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
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG;
    if (address->any.sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    admin->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, on_request, admin, MHD_OPTION_EXTERNAL_LOGGER, on_log, admin,
                         MHD_OPTION_SOCK_ADDR, &address->any, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, admin, MHD_OPTION_NOTIFY_COMPLETED, on_answered,
                         admin, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (!admin->daemon)
        return false;
    admin->wake = eventfd(0, EFD_CLOEXEC);
    int failed = admin->wake < 0 ? errno : start_thread(admin);
    if (!failed)
        return true;
    MHD_stop_daemon(admin->daemon);
    if (admin->wake >= 0)
        close(admin->wake);
    errno = failed;
    return false;
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
    ob_visitors_init(&admin->visitors);
    if (!start(admin, &address)) {
        enum outbox_code code = ob_error_set(err, OUTBOX_INTERNAL,
                                             "cannot listen on %.64s: %s; set admin.listen to an address that is free",
                                             options->listen, strerror(errno));
        ob_free(admin);
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
    MHD_stop_daemon(admin->daemon);
    close(admin->wake);
    ob_free(admin);
}

int ob_admin_port(const struct ob_admin *admin)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}
