/* connect.c - makes and ends the connection to RabbitMQ: socket, TLS, login, channel, a look at the exchange,
 * confirms. Every step waits, all together within connect_timeout. */
#include "sink/broker/amqp/amqp_int.h"

#include "sink/broker/tls_fault.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { FRAME = 131072, CHANNELS = 8 };

void ob_amqp_rule_close(struct ob_verdict *verdict, int code, amqp_bytes_t text)
{
    char name[16];
    enum outbox_sink_outcome outcome = OUTBOX_SINK_RETRY;
    if (code == AMQP_NOT_FOUND || code == AMQP_ACCESS_REFUSED || code == AMQP_NOT_ALLOWED)
        outcome = OUTBOX_SINK_BLOCKED;
    else if (code == AMQP_PRECONDITION_FAILED || code == AMQP_CONTENT_TOO_LARGE)
        outcome = OUTBOX_SINK_TERMINAL;
    snprintf(name, sizeof name, "%d", code);
    ob_verdict_set(verdict, outcome, "amqp", name, "%.*s", (int)(text.len < 300 ? text.len : 300), (char *)text.bytes);
}

static bool fail_tls(struct ob_amqp *amqp, struct ob_verdict *verdict, int status, bool rejected)
{
    char place[OB_PLACE];
    const char *why = ERR_reason_error_string(ERR_peek_error());
    ob_broker_url_place(&amqp->url, place);
    ob_verdict_set(verdict, rejected ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_RETRY, "amqp", "tls", "%s: %s%s%s", place,
                   amqp_error_string2(status), why ? ": " : "", why ? why : "");
    verdict->unreachable = !rejected;
    ob_amqp_disconnect(amqp);
    return false;
}

/* status: of the library; errno is that of its last call. */
static bool fail(struct ob_amqp *amqp, struct ob_verdict *verdict, int status)
{
    int number = errno;
    char place[OB_PLACE];
    if (status == AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED || status == AMQP_STATUS_SSL_PEER_VERIFY_FAILED)
        return fail_tls(amqp, verdict, status, true);
    if (status == AMQP_STATUS_SSL_ERROR || status == AMQP_STATUS_SSL_CONNECTION_FAILED)
        return fail_tls(amqp, verdict, status, ob_tls_rejects(ERR_peek_error()));
    ob_broker_url_place(&amqp->url, place);
    if (status == AMQP_STATUS_TIMEOUT)
        ob_verdict_silent(amqp->broker, verdict, place);
    else if (status == AMQP_STATUS_NO_MEMORY)
        ob_verdict_shortage(verdict);
    else
        ob_verdict_unreachable(verdict, "amqp", place,
                               status != AMQP_STATUS_SOCKET_ERROR ? amqp_error_string2(status)
                               : number && number != EINPROGRESS  ? strerror(number)
                                                                  : "refused or unreachable");
    ob_amqp_disconnect(amqp);
    return false;
}

/* Of the call before. True: it went well. */
static bool went_well(struct ob_amqp *amqp, amqp_rpc_reply_t reply, struct ob_verdict *verdict)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION)
        return fail(amqp, verdict, reply.library_error);
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *said = reply.reply.decoded;
        ob_amqp_rule_close(verdict, said->reply_code, said->reply_text);
    } else {
        const amqp_connection_close_t *said = reply.reply.decoded;
        ob_amqp_rule_close(verdict, said->reply_code, said->reply_text);
    }
    verdict->unreachable = verdict->outcome == OUTBOX_SINK_RETRY;
    ob_amqp_disconnect(amqp);
    return false;
}

static amqp_table_entry_t flag(const char *name)
{
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes(name), .value.kind = AMQP_FIELD_KIND_BOOLEAN};
    entry.value.value.boolean = 1;
    return entry;
}

static struct timeval time_left(const struct ob_amqp *amqp)
{
    int64_t us = ob_broker_left_us(amqp->broker);
    return (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000};
}

/* Of the next question. */
static void limit_wait(struct ob_amqp *amqp)
{
    struct timeval tv = time_left(amqp);
    errno = 0;
    amqp_set_rpc_timeout(amqp->state, &tv);
}

static amqp_rpc_reply_t log_in(struct ob_amqp *amqp)
{
    amqp_table_entry_t abilities[] = {flag("authentication_failure_close"), flag("connection.blocked"),
                                      flag("publisher_confirms"), flag("basic.nack")};
    amqp_table_entry_t properties[2] = {{.key = amqp_cstring_bytes("capabilities")},
                                        {.key = amqp_cstring_bytes("connection_name")}};
    properties[0].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[0].value.value.table = (amqp_table_t){sizeof abilities / sizeof abilities[0], abilities};
    properties[1].value.kind = AMQP_FIELD_KIND_UTF8;
    properties[1].value.value.bytes = amqp_cstring_bytes("outbox");
    amqp_table_t table = {2, properties};
    struct timeval tv = time_left(amqp);
    errno = 0;
    amqp_set_handshake_timeout(amqp->state, &tv);
    return amqp_login_with_properties(amqp->state, amqp->vhost, CHANNELS, FRAME, amqp->heartbeat, &table,
                                      AMQP_SASL_METHOD_PLAIN, amqp->username, amqp->password);
}

/* The library itself has no trusted CAs; OpenSSL knows those of the system, and reads SSL_CERT_FILE and SSL_CERT_DIR. */
static int set_tls(struct ob_amqp *amqp, amqp_socket_t *socket)
{
    int status = AMQP_STATUS_OK;
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (amqp->tls.ca)
        status = amqp_ssl_socket_set_cacert(socket, amqp->tls.ca);
    else if (SSL_CTX_set_default_verify_paths(amqp_ssl_socket_get_context(socket)) != 1)
        status = AMQP_STATUS_SSL_ERROR;
    if (!status && amqp->tls.cert)
        status = amqp_ssl_socket_set_key(socket, amqp->tls.cert, amqp->tls.key);
    return status;
}

static bool dial(struct ob_amqp *amqp, amqp_socket_t *socket, struct ob_verdict *verdict)
{
    int fd = ob_broker_dial(amqp->broker, &amqp->url, verdict);
    if (fd >= 0)
        amqp_tcp_socket_set_sockfd(socket, fd);
    else
        ob_amqp_disconnect(amqp);
    return fd >= 0;
}

/* Over TLS the library dials by itself, using the name that the certificate must have: it resolves the name again, after
 * our own lookup showed that the name servers answer. */
static bool dial_tls(struct ob_amqp *amqp, amqp_socket_t *socket, struct ob_verdict *verdict)
{
    struct ob_addresses found;
    char place[OB_PLACE];
    ob_broker_url_place(&amqp->url, place);
    if (!ob_broker_resolve(amqp->broker, amqp->url.host, place, &found, verdict)) {
        ob_amqp_disconnect(amqp);
        return false;
    }
    struct timeval tv = time_left(amqp);
    errno = 0;
    int status = amqp_socket_open_noblock(socket, amqp->url.host, amqp->url.port, &tv);
    return status ? fail(amqp, verdict, status) : true;
}

static bool open_socket(struct ob_amqp *amqp, struct ob_verdict *verdict)
{
    amqp_socket_t *socket = amqp->secure ? amqp_ssl_socket_new(amqp->state) : amqp_tcp_socket_new(amqp->state);
    int status;
    if (!socket)
        return fail(amqp, verdict, AMQP_STATUS_NO_MEMORY);
    ERR_clear_error();
    if (amqp->secure && (status = set_tls(amqp, socket)))
        return fail_tls(amqp, verdict, status, true); /* a file of ours */
    return amqp->secure ? dial_tls(amqp, socket, verdict) : dial(amqp, socket, verdict);
}

/* The library's writes have no time limit, so the kernel sets one. */
static void bound_writes(struct ob_amqp *amqp)
{
    unsigned ms = (unsigned)(amqp->broker->ack_timeout_us / 1000);
    int fd = amqp_get_sockfd(amqp->state);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    pthread_mutex_lock(&amqp->mutex);
    amqp->fd = fd;
    pthread_mutex_unlock(&amqp->mutex);
}

bool ob_amqp_connect(void *self, struct ob_verdict *verdict)
{
    struct ob_amqp *amqp = self;
    amqp->tags = 0;
    amqp->returning = false;
    if (!(amqp->state = amqp_new_connection()))
        return fail(amqp, verdict, AMQP_STATUS_NO_MEMORY);
    if (!open_socket(amqp, verdict))
        return false;
    bound_writes(amqp);
    if (!went_well(amqp, log_in(amqp), verdict))
        return false;
    limit_wait(amqp);
    amqp_channel_open(amqp->state, OB_AMQP_CHANNEL);
    if (!went_well(amqp, amqp_get_rpc_reply(amqp->state), verdict))
        return false;
    if (amqp->exchange[0]) {
        limit_wait(amqp);
        amqp_exchange_declare(amqp->state, OB_AMQP_CHANNEL, amqp_cstring_bytes(amqp->exchange),
                              amqp_cstring_bytes("direct"), 1, 0, 0, 0, amqp_empty_table);
        if (!went_well(amqp, amqp_get_rpc_reply(amqp->state), verdict))
            return false;
    }
    limit_wait(amqp);
    amqp_confirm_select(amqp->state, OB_AMQP_CHANNEL);
    if (!went_well(amqp, amqp_get_rpc_reply(amqp->state), verdict))
        return false;
    amqp_maybe_release_buffers(amqp->state);
    return true;
}

void ob_amqp_disconnect(void *self)
{
    struct ob_amqp *amqp = self;
    pthread_mutex_lock(&amqp->mutex);
    amqp->fd = -1;
    pthread_mutex_unlock(&amqp->mutex);
    if (amqp->state)
        amqp_destroy_connection(amqp->state); /* without closing the connection properly, which would block */
    amqp->state = NULL;
}
