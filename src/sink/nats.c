/* nats.c - the NATS sink: publishes to JetStream; the stream's acknowledgement is the proof.
 *
 * Nats-Msg-Id is the message's id: within its duplicate_window a stream drops the second copy and says so, which is an
 * acceptance like any other. So a retry after an unknown end is safe inside that window.
 *
 * libnats would reconnect by itself and keep what is published meanwhile in a buffer, from which it may leave at any time.
 * That is switched off: a connection that breaks is gone, what was out is unknown, and the next parcel makes a new one.
 *
 * With the first connection the library starts three threads of its own (timers, callbacks, tidying up) that live as long
 * as the process; at its end valgrind calls what belongs to them possibly lost, three blocks of 336 bytes.
 *
 * Thread: the courier's. Callbacks of the library's threads go through nats_link.c. */
#include "sink/nats_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/broker_url.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

extern const struct outbox_sink_ops ob_sink_nats;

enum { SERVERS = 16, SPARE_US = 500000 };

struct nats {
    struct ob_courier *courier;
    struct ob_broker_url *servers; /* SERVERS of them, in the courier's arena */
    int server_count;
    char places[200]; /* their names, as many as fit */
    const char *username, *password, *token, *credentials, *stream, *domain, *prefix, *ca, *cert, *key, *hostname;
    bool tls;
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

/* Names that begin with Nats- are orders to the server: it would obey a message that says Nats-Rollup. */
static bool is_order(const char *name)
{
    return strncasecmp(name, "nats-", 5) == 0;
}

static natsStatus make_message(natsMsg **msg, const struct ob_parcel *parcel)
{
    natsStatus status =
        natsMsg_Create(msg, ob_buf_text(&parcel->address), NULL, ob_buf_text(&parcel->body), (int)parcel->body.len);
    for (size_t i = 0; status == NATS_OK && i < parcel->headers.count; i++)
        if (!is_order(parcel->headers.at[i].name))
            status = natsMsgHeader_Set(*msg, parcel->headers.at[i].name, parcel->headers.at[i].value);
    return status;
}

static void nats_send(void *self, struct ob_parcel *parcel)
{
    struct nats *nats = self;
    natsMsg *msg = NULL;
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = parcel->id;
    options.MaxWait = nats->ack_ms;
    options.ExpectStream = nats->stream;
    natsStatus status = make_message(&msg, parcel);
    bool made = status == NATS_OK;
    if (made)
        status = js_PublishMsgAsync(nats->js, &msg, &options);
    nats->watch.sent++;
    natsMsg_Destroy(msg);
    if (status == NATS_OK)
        return;
    if (status == NATS_NO_MEMORY) {
        ob_ruling_shortage(&parcel->ruling);
    } else if (!made) {
        ob_ruling_set(&parcel->ruling, OUTBOX_SINK_TERMINAL, "nats", "message",
                      "no message of NATS can be made of it: %s", natsStatus_GetText(status));
    } else if (status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT) {
        ob_nats_rule(&parcel->ruling, status, 0, NULL, parcel->attempt, nats->courier->one_address);
    } else {
        ob_courier_lost(nats->courier, "lost", "publishing to NATS: %s", natsStatus_GetText(status));
        return;
    }
    ob_parcel_end(nats->courier, parcel);
}

/* ---- what came of it ---- */

static struct ob_parcel *find(const struct nats *nats, const char *id)
{
    OB_LIST_EACH (it, &nats->courier->out) {
        struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, node);
        if (strcmp(parcel->id, id) == 0)
            return parcel;
    }
    return NULL;
}

static void answered(struct nats *nats, const struct ob_nats_event *event)
{
    struct ob_parcel *parcel = find(nats, event->id);
    if (!parcel)
        return;
    if (event->status == NATS_OK) {
        ob_parcel_accepted(nats->courier, parcel, event->text, event->duplicate ? "the stream has it already" : NULL);
        return;
    }
    ob_nats_rule(&parcel->ruling, event->status, event->code, event->text, parcel->attempt, nats->courier->one_address);
    ob_parcel_end(nats->courier, parcel);
}

/* The server says so apart from the message, and names its subject in quotes. No acknowledgement will come. */
static void forbidden(struct nats *nats, const struct ob_nats_event *event)
{
    OB_LIST_EACH_SAFE (it, &nats->courier->out) {
        struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, node);
        const char *subject = ob_buf_text(&parcel->address), *at = strchr(event->text, '"');
        size_t len = parcel->address.len;
        if (!at || strncmp(at + 1, subject, len) != 0 || at[1 + len] != '"')
            continue;
        ob_nats_rule(&parcel->ruling, event->status, 0, event->text, parcel->attempt, nats->courier->one_address);
        ob_parcel_end(nats->courier, parcel);
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
        ob_courier_lost(nats->courier, "protocol", "the server sends far more than a publisher is sent");
    if (closed)
        ob_courier_lost(nats->courier, "lost", "the server closed the connection");
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
    if (nats->tls)
        status = natsOptions_SetSecure(nats->options, true);
    if (status == NATS_OK && nats->ca)
        status = natsOptions_LoadCATrustedCertificates(nats->options, nats->ca);
    if (status == NATS_OK && nats->cert)
        status = natsOptions_LoadCertificatesChain(nats->options, nats->cert, nats->key ? nats->key : nats->cert);
    if (status == NATS_OK && nats->tls) /* else any certificate of a known authority would do */
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
    int64_t connect_ms = ob_courier_left_us(nats->courier) / 1000 / nats->dialled_count;
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
    options.Wait = nats->courier->connect_timeout_us / 1000;
    options.PublishAsync.MaxPending = (int64_t)nats->courier->window * 2;
    options.PublishAsync.AckHandler = ob_nats_on_ack;
    options.PublishAsync.AckHandlerClosure = nats->link;
    TRY(natsConnection_JetStream(&nats->js, nats->connection, &options));
    return status;
}

/* With TLS the name must stay, for the server that has several certificates: then the library looks it up once more, now
 * that it is known to be answered. */
static void add_dialled(struct nats *nats, const struct ob_broker_url *server, const struct ob_addresses *found)
{
    size_t count = nats->tls ? 1 : found->count;
    for (size_t i = 0; i < count && nats->dialled_count < SERVERS; i++) {
        const char *host = nats->tls ? server->host : found->text[i];
        bool bare = strchr(host, ':') != NULL;
        snprintf(nats->dialled[nats->dialled_count++], sizeof nats->dialled[0], "%s://%s%s%s:%d", server->scheme,
                 bare ? "[" : "", host, bare ? "]" : "", server->port);
    }
}

/* Each server's name has its part of the time. False after it filled the ruling: none has an address. */
static bool find_servers(struct nats *nats, struct ob_ruling *ruling)
{
    struct ob_courier *courier = nats->courier;
    int64_t until_us = courier->connect_until_us;
    nats->dialled_count = 0;
    nats->guard.peer_count = 0;
    for (int i = 0; i < nats->server_count; i++) {
        struct ob_addresses found;
        courier->connect_until_us =
            until_us - ob_courier_left_us(courier) * (nats->server_count - i - 1) / (nats->server_count - i);
        bool known = ob_courier_resolve(courier, nats->servers[i].host, nats->places, &found, ruling);
        if (known)
            add_dialled(nats, &nats->servers[i], &found);
        for (size_t j = 0; known && j < found.count; j++)
            ob_nats_guard_peer(&nats->guard, found.text[j], nats->servers[i].port);
        courier->connect_until_us = until_us;
    }
    return nats->dialled_count > 0;
}

static natsStatus dial(struct nats *nats)
{
    if (!ob_nats_guard_start(&nats->guard, nats->courier->connect_until_us + SPARE_US))
        return NATS_NO_MEMORY;
    natsStatus status = natsConnection_Connect(&nats->connection, nats->options);
    ob_nats_guard_end(&nats->guard);
    return status;
}

static bool nats_connect(void *self, struct ob_ruling *ruling)
{
    struct nats *nats = self;
    if (!find_servers(nats, ruling))
        return false;
    nats->link = ob_nats_link_take(nats->courier);
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
        ob_ruling_silent(nats->courier, ruling, nats->places);
    else
        ob_nats_rule_connect(ruling, status, text && *text ? text : natsStatus_GetText(status), nats->places, dialled);
    nats_disconnect(nats);
    return false;
}

/* Asks for what every account may ask for; with expect_stream, for that stream. */
static void nats_probe(void *self, struct ob_ruling *ruling)
{
    struct nats *nats = self;
    jsAccountInfo *account = NULL;
    jsStreamInfo *stream = NULL;
    jsErrCode code = 0;
    natsStatus status = nats->stream ? js_GetStreamInfo(&stream, nats->js, nats->stream, NULL, &code)
                                     : js_GetAccountInfo(&account, nats->js, NULL, &code);
    if (status == NATS_NOT_FOUND || status == NATS_NO_RESPONDERS) {
        ob_ruling_set(ruling, OUTBOX_SINK_BLOCKED, "nats", nats->stream ? "no_stream" : "no_jetstream", "%s",
                      nats->stream ? "there is no such stream" : "the server has no JetStream");
    } else if (status != NATS_OK) {
        ob_nats_rule(ruling, status, (int)code, natsStatus_GetText(status), 2, true);
    } else if (account) {
        snprintf(ruling->text, sizeof ruling->text, "%d streams", (int)account->Streams);
    }
    jsAccountInfo_Destroy(account);
    jsStreamInfo_Destroy(stream);
}

static bool nats_check(void *self, const struct ob_parcel *parcel, struct ob_ruling *ruling)
{
    (void)self;
    if (ob_nats_subject_ok(ob_buf_text(&parcel->address), parcel->address.len))
        return true;
    ob_ruling_set(ruling, OUTBOX_SINK_TERMINAL, "nats", "address",
                  "not a subject to publish to: no wildcards, spaces or empty tokens, and none of the server's own");
    return false;
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"servers", OUTBOX_OPTION_LIST, .required = true,
     .doc = "`nats://host:port` or `tls://host:port`; the first that answers"},
    {"username", OUTBOX_OPTION_TEXT, .doc = "with password"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "with username"},
    {"token", OUTBOX_OPTION_TEXT, .secret = true, .doc = "instead of them"},
    {"credentials", OUTBOX_OPTION_TEXT, .doc = "a file with the user's JWT and seed, instead of them"},
    {"tls.ca", OUTBOX_OPTION_FILE, .doc = "file with the authorities to trust instead of the system's"},
    {"tls.cert", OUTBOX_OPTION_FILE, .doc = "file with our certificate"},
    {"tls.key", OUTBOX_OPTION_FILE, .doc = "file with its key"},
    {"tls.hostname", OUTBOX_OPTION_TEXT,
     .doc = "what the server's certificate must name; without it, the host of the URL"},
    {"subject", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}",
     .doc = "where messages go: a text, or a template of the message"},
    {"expect_stream", OUTBOX_OPTION_TEXT, .doc = "only this stream may take them"},
    {"domain", OUTBOX_OPTION_TEXT, .doc = "the JetStream domain"},
    {"api_prefix", OUTBOX_OPTION_TEXT, .doc = "instead of `$JS.API`"},
    OB_COURIER_SETTINGS,
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
    nats->tls |= strcmp(url.scheme, "tls") == 0;
    if (!nats->hostname && !(nats->hostname = ob_arena_strdup(&nats->courier->arena, url.host)))
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
    const char *text, *hostname = ob_courier_keep(nats->courier, options, "tls.hostname", &failed);
    enum outbox_code code = OUTBOX_OK;
    nats->tls = nats->ca || nats->cert;
    if (!(nats->servers = ob_arena_alloc(&nats->courier->arena, SERVERS * sizeof *nats->servers)))
        return ob_error_nomem(err);
    for (size_t i = 0; !code && (text = ob_option_next(options, "servers", &i));)
        code = add_server(nats, text, &several, err);
    if (code)
        return code;
    if (failed)
        return ob_error_nomem(err);
    if (!nats->server_count)
        return ob_error_set(err, OUTBOX_INVALID, "servers is empty");
    if (nats->tls && several && !hostname)
        return ob_error_set(err, OUTBOX_INVALID,
                            "the servers have several names: tls.hostname must say which one their "
                            "certificates share");
    if (hostname)
        nats->hostname = hostname;
    return OUTBOX_OK;
}

static enum outbox_code read_settings(void *self, struct ob_courier *courier, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct nats *nats = self;
    bool failed = false;
    nats->courier = courier;
    ob_nats_watch_init(&nats->watch);
    nats->ack_ms = courier->ack_timeout_us / 1000;
    courier->ack_timeout_us += SPARE_US; /* the library says which message it is, and comes first */
    nats->username = ob_courier_keep(courier, options, "username", &failed);
    nats->password = ob_courier_keep(courier, options, "password", &failed);
    nats->token = ob_courier_keep(courier, options, "token", &failed);
    nats->credentials = ob_courier_keep(courier, options, "credentials", &failed);
    nats->stream = ob_courier_keep(courier, options, "expect_stream", &failed);
    nats->domain = ob_courier_keep(courier, options, "domain", &failed);
    nats->prefix = ob_courier_keep(courier, options, "api_prefix", &failed);
    nats->ca = ob_courier_keep(courier, options, "tls.ca", &failed);
    nats->cert = ob_courier_keep(courier, options, "tls.cert", &failed);
    nats->key = ob_courier_keep(courier, options, "tls.key", &failed);
    return failed ? ob_error_nomem(err) : read_servers(nats, options, err);
}

static const struct ob_courier_driver driver = {
    .size = sizeof(struct nats),
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
    .probe = nats_probe,
};

static enum outbox_code nats_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_courier_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_nats = {
    OB_COURIER_OPS, .kind = "nats", .open = nats_open, .settings = settings, .summary = "publishes to NATS JetStream",
};
