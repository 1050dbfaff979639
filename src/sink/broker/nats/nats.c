/* nats.c - the NATS sink: publishes to JetStream; the stream's acknowledgement is the proof.
 *
 * Nats-Msg-Id is the message's id: within its duplicate_window a stream drops the second copy and says so, which is an
 * acceptance like any other. So a retry after an unknown outcome is safe within that window.
 *
 * libnats would reconnect by itself and buffer what is published meanwhile, and might send that at any time. That is
 * switched off: when a connection breaks, the messages in flight are unknown, and the next job opens a new one.
 *
 * With the first connection the library starts three threads of its own (timers, callbacks, cleanup) that live as long as
 * the process; at its end valgrind reports their memory as possibly lost, three blocks of 336 bytes.
 *
 * Thread: the broker thread's. Callbacks of the library's threads go through link.c. */
#include "sink/broker/nats/nats_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/broker/url.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

extern const struct outbox_sink_ops ob_sink_nats;

enum { SERVERS = 16, SPARE_US = 500000 };

struct nats {
    struct ob_broker *broker;
    struct ob_broker_url *servers; /* SERVERS of them, in the broker thread's arena */
    int server_count;
    char places[200]; /* their names, as many as fit */
    const char *username, *password, *token, *credentials, *stream, *domain, *prefix, *hostname;
    struct ob_tls tls;
    bool secure; /* over TLS */
    int64_t ack_ms;
    /* the connection */
    natsOptions *options;
    natsConnection *connection;
    jsCtx *js;
    struct ob_nats_link *link;
    struct ob_nats_watch watch;
    struct ob_nats_guard guard;
    char dialled[SERVERS][OB_PLACE + 16]; /* what the library is given */
    int dialled_count;
};

/* ---- sending ---- */

/* Names that begin with Nats- are instructions to the server: it would act on a message with Nats-Rollup. */
static bool is_order(const char *name)
{
    return strncasecmp(name, "nats-", 5) == 0;
}

static natsStatus make_message(natsMsg **msg, const struct ob_broker_job *job)
{
    natsStatus status =
        natsMsg_Create(msg, ob_buf_text(&job->address), NULL, ob_buf_text(&job->body), (int)job->body.len);
    for (size_t i = 0; status == NATS_OK && i < job->headers.count; i++)
        if (!is_order(job->headers.at[i].name))
            status = natsMsgHeader_Set(*msg, job->headers.at[i].name, job->headers.at[i].value);
    return status;
}

static void nats_send(void *self, struct ob_broker_job *job)
{
    struct nats *nats = self;
    natsMsg *msg = NULL;
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = job->id;
    options.MaxWait = nats->ack_ms;
    options.ExpectStream = nats->stream;
    natsStatus status = make_message(&msg, job);
    bool made = status == NATS_OK;
    if (made)
        status = js_PublishMsgAsync(nats->js, &msg, &options);
    nats->watch.sent++;
    natsMsg_Destroy(msg);
    if (status == NATS_OK)
        return;
    if (status == NATS_NO_MEMORY) {
        ob_verdict_shortage(&job->verdict);
    } else if (!made) {
        ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, "nats", "message", "cannot build a NATS message: %s",
                       natsStatus_GetText(status));
    } else if (status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT) {
        ob_nats_verdict(&job->verdict, status, 0, NULL, job->attempt, nats->broker->one_address);
    } else {
        ob_broker_lost(nats->broker, "lost", "publishing to NATS: %s", natsStatus_GetText(status));
        return;
    }
    ob_broker_job_end(nats->broker, job);
}

/* ---- what came of it ---- */

static struct ob_broker_job *find(const struct nats *nats, const char *id)
{
    OB_LIST_EACH (it, &nats->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        if (strcmp(job->id, id) == 0)
            return job;
    }
    return NULL;
}

static void answered(struct nats *nats, const struct ob_nats_event *event)
{
    struct ob_broker_job *job = find(nats, event->id);
    if (!job)
        return;
    if (event->status == NATS_OK) {
        ob_broker_job_accepted(nats->broker, job, event->text, event->duplicate ? "already in the stream" : NULL);
        return;
    }
    ob_nats_verdict(&job->verdict, event->status, event->code, event->text, job->attempt, nats->broker->one_address);
    ob_broker_job_end(nats->broker, job);
}

/* The server reports this separately from the message, with its subject in quotes. No acknowledgement will come. */
static void forbidden(struct nats *nats, const struct ob_nats_event *event)
{
    OB_LIST_EACH_SAFE (it, &nats->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        const char *subject = ob_buf_text(&job->address), *at = strchr(event->text, '"');
        size_t len = job->address.len;
        if (!at || strncmp(at + 1, subject, len) != 0 || at[1 + len] != '"')
            continue;
        ob_nats_verdict(&job->verdict, event->status, 0, event->text, job->attempt, nats->broker->one_address);
        ob_broker_job_end(nats->broker, job);
    }
}

static void nats_serve(void *self, short revents)
{
    struct nats *nats = self;
    struct ob_nats_event *event;
    (void)revents;
    bool closed = natsConnection_IsClosed(nats->connection); /* before the last events are read */
    while ((event = ob_nats_link_next(nats->link))) {
        if (event->id[0])
            answered(nats, event);
        else if (event->status == NATS_NOT_PERMITTED)
            forbidden(nats, event);
        ob_free(event);
    }
    if (!ob_nats_watch_check(&nats->watch))
        ob_broker_lost(nats->broker, "protocol", "the server sent more data than a publisher expects");
    if (closed)
        ob_broker_lost(nats->broker, "lost", "the server closed the connection");
}

static int nats_fd(void *self, short *events)
{
    const struct nats *nats = self;
    *events = POLLIN;
    return nats->watch.epoll;
}

/* ---- the connection ---- */

static void nats_disconnect(void *self)
{
    struct nats *nats = self;
    ob_nats_watch_close(&nats->watch);
    jsCtx_Destroy(nats->js);
    natsConnection_Destroy(nats->connection);
    natsOptions_Destroy(nats->options);
    ob_nats_link_give(nats->link);
    nats->js = NULL;
    nats->connection = NULL;
    nats->options = NULL;
    nats->link = NULL;
}

static natsStatus set_tls(struct nats *nats)
{
    natsStatus status = NATS_OK;
    if (nats->secure)
        status = natsOptions_SetSecure(nats->options, true);
    if (status == NATS_OK && nats->tls.ca)
        status = natsOptions_LoadCATrustedCertificates(nats->options, nats->tls.ca);
    if (status == NATS_OK && nats->tls.cert)
        status = natsOptions_LoadCertificatesChain(nats->options, nats->tls.cert, nats->tls.key);
    if (status == NATS_OK && nats->secure) /* else any certificate of a known authority would do */
        status = natsOptions_SetExpectedHostname(nats->options, nats->hostname);
    return status;
}

#define TRY(call) \
    do { \
        if (status == NATS_OK) \
            status = (call); \
    } while (0)

static natsStatus set_options(struct nats *nats)
{
    /* The library gives each server as long, one after the other. */
    int64_t connect_ms = ob_broker_left_us(nats->broker) / 1000 / nats->dialled_count;
    const char *servers[SERVERS];
    natsStatus status = natsOptions_Create(&nats->options);
    for (int i = 0; i < nats->dialled_count; i++)
        servers[i] = nats->dialled[i];
    TRY(natsOptions_SetServers(nats->options, servers, nats->dialled_count));
    TRY(natsOptions_SetName(nats->options, "outbox"));
    TRY(natsOptions_SetTimeout(nats->options, connect_ms > 0 ? connect_ms : 1));
    TRY(natsOptions_SetAllowReconnect(nats->options, false));
    TRY(natsOptions_SetSendAsap(nats->options, true));
    TRY(natsOptions_SetWriteDeadline(nats->options, nats->ack_ms));
    TRY(natsOptions_SetErrorHandler(nats->options, ob_nats_on_error, nats->link));
    TRY(natsOptions_SetClosedCB(nats->options, ob_nats_on_closed, nats->link));
    if (nats->username)
        TRY(natsOptions_SetUserInfo(nats->options, nats->username, nats->password ? nats->password : ""));
    if (nats->token)
        TRY(natsOptions_SetToken(nats->options, nats->token));
    if (nats->credentials)
        TRY(natsOptions_SetUserCredentialsFromFiles(nats->options, nats->credentials, NULL));
    TRY(set_tls(nats));
    return status;
}

static natsStatus open_stream(struct nats *nats)
{
    jsOptions options;
    natsStatus status = jsOptions_Init(&options);
    options.Domain = nats->domain;
    options.Prefix = nats->prefix;
    options.Wait = nats->broker->connect_timeout_us / 1000;
    options.PublishAsync.MaxPending = (int64_t)nats->broker->in_flight_max * 2;
    options.PublishAsync.AckHandler = ob_nats_on_ack;
    options.PublishAsync.AckHandlerClosure = nats->link;
    TRY(natsConnection_JetStream(&nats->js, nats->connection, &options));
    return status;
}

/* With TLS the name is needed, because a server may have several certificates: then the library resolves it again, after
 * our own lookup showed that the name servers answer. */
static void add_dialled(struct nats *nats, const struct ob_broker_url *server, const struct ob_addresses *found)
{
    size_t count = nats->secure ? 1 : found->count;
    for (size_t i = 0; i < count && nats->dialled_count < SERVERS; i++) {
        const char *host = nats->secure ? server->host : found->text[i];
        bool bare = strchr(host, ':') != NULL;
        snprintf(nats->dialled[nats->dialled_count++], sizeof nats->dialled[0], "%s://%s%s%s:%d", server->scheme,
                 bare ? "[" : "", host, bare ? "]" : "", server->port);
    }
}

/* Each server's name has its part of the time. False after it filled the verdict: none has an address. */
static bool find_servers(struct nats *nats, struct ob_verdict *verdict)
{
    struct ob_broker *broker = nats->broker;
    int64_t until_us = broker->connect_until_us;
    nats->dialled_count = 0;
    nats->guard.peer_count = 0;
    for (int i = 0; i < nats->server_count; i++) {
        struct ob_addresses found;
        broker->connect_until_us =
            until_us - ob_broker_left_us(broker) * (nats->server_count - i - 1) / (nats->server_count - i);
        bool known = ob_broker_resolve(broker, nats->servers[i].host, nats->places, &found, verdict);
        if (known)
            add_dialled(nats, &nats->servers[i], &found);
        for (size_t j = 0; known && j < found.count; j++)
            ob_nats_guard_peer(&nats->guard, found.text[j], nats->servers[i].port);
        broker->connect_until_us = until_us;
    }
    return nats->dialled_count > 0;
}

static natsStatus dial(struct nats *nats)
{
    if (!ob_nats_guard_start(&nats->guard, nats->broker->connect_until_us + SPARE_US))
        return NATS_NO_MEMORY;
    natsStatus status = natsConnection_Connect(&nats->connection, nats->options);
    ob_nats_guard_end(&nats->guard);
    return status;
}

static bool nats_connect(void *self, struct ob_verdict *verdict)
{
    struct nats *nats = self;
    if (!find_servers(nats, verdict))
        return false;
    nats->link = ob_nats_link_take(nats->broker);
    natsStatus status = nats->link ? set_options(nats) : NATS_NO_MEMORY;
    bool dialled = status == NATS_OK;
    if (dialled)
        status = dial(nats);
    if (status == NATS_OK)
        ob_nats_watch_open(&nats->watch, nats->connection);
    TRY(open_stream(nats));
    if (status == NATS_OK)
        return true;
    const char *text = nats_GetLastError(NULL);
    if (status == NATS_TIMEOUT)
        ob_verdict_silent(nats->broker, verdict, nats->places);
    else
        ob_nats_verdict_of_connect(verdict, status, text && *text ? text : natsStatus_GetText(status), nats->places,
                                   dialled);
    nats_disconnect(nats);
    return false;
}

/* Asks for what every account may ask for; with expect_stream, for that stream. */
static void nats_ping(void *self, struct ob_verdict *verdict)
{
    struct nats *nats = self;
    jsAccountInfo *account = NULL;
    jsStreamInfo *stream = NULL;
    jsErrCode code = 0;
    natsStatus status = nats->stream ? js_GetStreamInfo(&stream, nats->js, nats->stream, NULL, &code)
                                     : js_GetAccountInfo(&account, nats->js, NULL, &code);
    if (status == NATS_NOT_FOUND || status == NATS_NO_RESPONDERS) {
        ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "nats", nats->stream ? "no_stream" : "no_jetstream", "%s",
                       nats->stream ? "the stream does not exist" : "JetStream is not enabled on the server");
    } else if (status != NATS_OK) {
        ob_nats_verdict(verdict, status, (int)code, natsStatus_GetText(status), 2, true);
    } else if (account) {
        snprintf(verdict->text, sizeof verdict->text, "%d streams", (int)account->Streams);
    }
    jsAccountInfo_Destroy(account);
    jsStreamInfo_Destroy(stream);
}

static bool nats_check(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict)
{
    (void)self;
    if (ob_nats_subject_ok(ob_buf_text(&job->address), job->address.len))
        return true;
    ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "nats", "address",
                   "cannot publish to this subject: wildcards, spaces, empty tokens and the server's own subjects "
                   "($...) are not allowed");
    return false;
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"servers", OUTBOX_OPTION_LIST, .required = true,
     .doc = "server URLs: `nats://host:port` or `tls://host:port`; the first that answers is used"},
    {"username", OUTBOX_OPTION_TEXT, .doc = "with password"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "with username"},
    {"token", OUTBOX_OPTION_TEXT, .secret = true, .doc = "token, instead of user name and password"},
    {"credentials", OUTBOX_OPTION_TEXT,
     .doc = "credentials file with the user's JWT and seed, instead of user name "
            "and password"},
    OB_TLS_SETTINGS,
    {"tls.hostname", OUTBOX_OPTION_TEXT,
     .doc = "name the server's certificate must carry (default: the host of the URL)"},
    {"subject", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}", .doc = "where messages go: a text or a template"},
    {"expect_stream", OUTBOX_OPTION_TEXT, .doc = "stream that must store the messages"},
    {"domain", OUTBOX_OPTION_TEXT, .doc = "JetStream domain"},
    {"api_prefix", OUTBOX_OPTION_TEXT, .doc = "prefix of the JetStream API, instead of `$JS.API`"},
    OB_BROKER_SETTINGS,
    OB_RENDER_SETTINGS,
    {NULL},
};

static enum outbox_code add_server(struct nats *nats, const char *text, bool *several, struct outbox_error *err)
{
    struct ob_broker_url url;
    enum outbox_code code = ob_broker_url_parse(&url, text, "nats tls", 4222, err);
    if (code)
        return code;
    if (nats->server_count == SERVERS)
        return ob_error_set(err, OUTBOX_INVALID, "more than %d servers", SERVERS);
    nats->secure |= strcmp(url.scheme, "tls") == 0;
    if (!nats->hostname && !(nats->hostname = ob_arena_strdup(&nats->broker->arena, url.host)))
        return ob_error_nomem(err);
    *several |= strcmp(nats->hostname, url.host) != 0;
    char place[OB_PLACE];
    size_t len = strlen(nats->places);
    ob_broker_url_place(&url, place);
    snprintf(nats->places + len, sizeof nats->places - len, "%s%s", len ? ", " : "", place);
    nats->servers[nats->server_count++] = url;
    return OUTBOX_OK;
}

static enum outbox_code read_servers(struct nats *nats, const struct ob_options *options, struct outbox_error *err)
{
    bool failed = false, several = false;
    const char *text, *hostname = ob_broker_keep(nats->broker, options, "tls.hostname", &failed);
    enum outbox_code code = OUTBOX_OK;
    nats->secure = nats->tls.ca || nats->tls.cert;
    if (!(nats->servers = ob_arena_alloc(&nats->broker->arena, SERVERS * sizeof *nats->servers)))
        return ob_error_nomem(err);
    for (size_t i = 0; !code && (text = ob_option_next(options, "servers", &i));)
        code = add_server(nats, text, &several, err);
    if (code)
        return code;
    if (failed)
        return ob_error_nomem(err);
    if (!nats->server_count)
        return ob_error_set(err, OUTBOX_INVALID, "servers is empty");
    if (nats->secure && several && !hostname)
        return ob_error_set(err, OUTBOX_INVALID,
                            "the servers have different host names: set tls.hostname to the name their certificates "
                            "share");
    if (hostname)
        nats->hostname = hostname;
    return OUTBOX_OK;
}

static enum outbox_code read_settings(void *self, struct ob_broker *broker, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct nats *nats = self;
    bool failed = false;
    nats->broker = broker;
    ob_nats_watch_init(&nats->watch);
    nats->ack_ms = broker->ack_timeout_us / 1000;
    broker->ack_timeout_us += SPARE_US; /* the library says which message it is, and comes first */
    nats->username = ob_broker_keep(broker, options, "username", &failed);
    nats->password = ob_broker_keep(broker, options, "password", &failed);
    nats->token = ob_broker_keep(broker, options, "token", &failed);
    nats->credentials = ob_broker_keep(broker, options, "credentials", &failed);
    nats->stream = ob_broker_keep(broker, options, "expect_stream", &failed);
    nats->domain = ob_broker_keep(broker, options, "domain", &failed);
    nats->prefix = ob_broker_keep(broker, options, "api_prefix", &failed);
    if (failed)
        return ob_error_nomem(err);
    enum outbox_code code = ob_tls_read(&nats->tls, options, &broker->arena, err);
    return code ? code : read_servers(nats, options, err);
}

static const struct ob_broker_driver driver = {
    .size = sizeof(struct nats),
    .settings = settings,
    .open = read_settings,
    .prefix = "nats",
    .wire = &ob_wire_nats,
    .address = "subject",
    .check = nats_check,
    .connect = nats_connect,
    .disconnect = nats_disconnect,
    .fd = nats_fd,
    .send = nats_send,
    .serve = nats_serve,
    .ping = nats_ping,
};

static enum outbox_code nats_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_broker_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_nats = {
    OB_BROKER_OPS,      .kind = "nats",       .also = "jetstream nats-jetstream nats_jetstream",
    .open = nats_open,  .settings = settings, .summary = "publishes to NATS JetStream",
    .protocol = "nats", .peer = "servers",    .destination = "subject",
};
