/* link.c - see link.h. On the broker thread. */
#include "sink/broker/mqtt/link.h"

#include "sink/broker/tls_fault.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ = 16384, TURNS = 16, KEPT = 1048576 };

void ob_mqtt_link_init(struct ob_mqtt_link *link)
{
    *link = (struct ob_mqtt_link){.fd = -1};
}

void ob_mqtt_link_close(struct ob_mqtt_link *link)
{
    SSL_free(link->ssl);
    SSL_CTX_free(link->context);
    if (link->fd >= 0)
        close(link->fd);
    ob_buf_fini(&link->in);
    ob_buf_fini(&link->out);
    ob_mqtt_link_init(link);
}

/* ---- TLS ---- */

static bool fail_tls(const char *place, bool rejected, const char *what, struct ob_verdict *verdict)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ob_verdict_set(verdict, rejected ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_RETRY, "mqtt", "tls", "%s: %s%s%s", place,
                   what, why ? ": " : "", why ? why : "");
    verdict->unreachable = !rejected;
    return false;
}

/* A key that wants a passphrase must not ask the terminal for it. */
static int no_passphrase(char *text, int size, int writing, void *ctx)
{
    (void)text;
    (void)size;
    (void)writing;
    (void)ctx;
    return 0;
}

static bool set_files(SSL_CTX *context, const struct ob_tls *tls)
{
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return false;
    if (tls->ca ? SSL_CTX_load_verify_locations(context, tls->ca, NULL) != 1
                : SSL_CTX_set_default_verify_paths(context) != 1)
        return false;
    return !tls->cert || (SSL_CTX_use_certificate_chain_file(context, tls->cert) == 1 &&
                          SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) == 1);
}

/* The certificate must be for this name, or this address. */
static bool set_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool shake_hands(struct ob_mqtt_link *link, struct ob_broker *broker, const char *place,
                        struct ob_verdict *verdict)
{
    for (;;) {
        ERR_clear_error();
        int done = SSL_connect(link->ssl), error = SSL_get_error(link->ssl, done);
        if (done == 1)
            return true;
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
            return fail_tls(place, ob_tls_rejects(ERR_peek_error()), "the TLS handshake failed", verdict);
        if (!ob_broker_wait(broker, link->fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) {
            ob_verdict_silent(broker, verdict, place);
            return false;
        }
    }
}

static bool open_tls(struct ob_mqtt_link *link, struct ob_broker *broker, const char *host, const char *place,
                     const struct ob_tls *tls, struct ob_verdict *verdict)
{
    ERR_clear_error();
    link->context = SSL_CTX_new(TLS_client_method());
    if (!link->context) {
        ob_verdict_shortage(verdict);
        return false;
    }
    if (!set_files(link->context, tls))
        return fail_tls(place, true, "the tls files are not usable", verdict);
    link->ssl = SSL_new(link->context);
    if (!link->ssl || SSL_set_fd(link->ssl, link->fd) != 1 || !set_host(link->ssl, host)) {
        ob_verdict_shortage(verdict);
        return false;
    }
    SSL_set_mode(link->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return shake_hands(link, broker, place, verdict);
}

bool ob_mqtt_link_open(struct ob_mqtt_link *link, struct ob_broker *broker, const struct ob_broker_url *url,
                       const struct ob_tls *tls, struct ob_verdict *verdict)
{
    char place[OB_PLACE];
    ob_broker_url_place(url, place);
    ob_mqtt_link_init(link);
    link->fd = ob_broker_dial(broker, url, verdict);
    bool opened = link->fd >= 0 && (!tls || open_tls(link, broker, url->host, place, tls, verdict));
    if (!opened)
        ob_mqtt_link_close(link);
    return opened;
}

/* ---- bytes ---- */

static const char *why_tls(struct ob_mqtt_link *link, int done)
{
    switch (SSL_get_error(link->ssl, done)) {
    case SSL_ERROR_WANT_WRITE: link->blocked = true; return NULL;
    case SSL_ERROR_WANT_READ: return NULL;
    case SSL_ERROR_ZERO_RETURN: return "the broker closed the connection";
    case SSL_ERROR_SYSCALL: return errno ? strerror(errno) : "the broker closed the connection";
    default: break;
    }
    const char *why = ERR_reason_error_string(ERR_peek_error());
    return why ? why : "TLS failed";
}

/* Bytes moved; 0 for none, with *why when it is over. */
static size_t receive(struct ob_mqtt_link *link, char *data, size_t size, const char **why)
{
    if (link->ssl) {
        ERR_clear_error();
        errno = 0;
        int got = SSL_read(link->ssl, data, (int)size);
        if (got <= 0)
            *why = why_tls(link, got);
        return got > 0 ? (size_t)got : 0;
    }
    ssize_t got = recv(link->fd, data, size, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        *why = strerror(errno);
    else if (got == 0)
        *why = "the broker closed the connection";
    return got > 0 ? (size_t)got : 0;
}

static size_t transmit(struct ob_mqtt_link *link, const char *data, size_t size, const char **why)
{
    if (link->ssl) {
        ERR_clear_error();
        errno = 0;
        int put = SSL_write(link->ssl, data, (int)(size < READ ? size : READ));
        if (put <= 0)
            *why = why_tls(link, put);
        return put > 0 ? (size_t)put : 0;
    }
    ssize_t put = send(link->fd, data, size, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR)
        *why = strerror(errno);
    return put > 0 ? (size_t)put : 0;
}

/* What was used makes room. */
static void drop(struct ob_buf *buf, size_t *used)
{
    if (*used == buf->len && buf->cap > KEPT)
        ob_buf_fini(buf);
    else if (*used == buf->len)
        ob_buf_reset(buf);
    else if (*used) {
        memmove(buf->data, buf->data + *used, buf->len - *used);
        buf->len -= *used;
        buf->data[buf->len] = '\0';
    }
    *used = 0;
}

const char *ob_mqtt_link_read(struct ob_mqtt_link *link, bool *more)
{
    const char *why = NULL;
    drop(&link->in, &link->in_at);
    *more = false;
    for (int turn = 0; turn < TURNS; turn++) {
        char *room = ob_buf_reserve(&link->in, READ);
        size_t got = room ? receive(link, room, READ, &why) : 0;
        if (!room)
            why = "out of memory";
        if (!got)
            return why;
        ob_buf_added(&link->in, got);
    }
    *more = true; /* perhaps: TLS may have it already, and then no poll tells */
    return NULL;
}

const char *ob_mqtt_link_write(struct ob_mqtt_link *link)
{
    const char *why = NULL;
    link->blocked = false;
    while (!why && link->out_at < link->out.len) {
        size_t put = transmit(link, link->out.data + link->out_at, link->out.len - link->out_at, &why);
        if (!put)
            break;
        link->out_at += put;
    }
    if (link->out_at == link->out.len || link->out_at > KEPT)
        drop(&link->out, &link->out_at);
    return why;
}

size_t ob_mqtt_link_unread(const struct ob_mqtt_link *link, const char **data)
{
    *data = link->in.data + link->in_at;
    return link->in.len - link->in_at;
}

void ob_mqtt_link_used(struct ob_mqtt_link *link, size_t len)
{
    link->in_at += len;
}

bool ob_mqtt_link_wants_write(const struct ob_mqtt_link *link)
{
    return link->blocked || link->out_at < link->out.len;
}
