/* link.c - see link.h. */
#include "sink/smtp/link.h"
#include "sink/curl/tls.h"
#include "sink/shortage.h"

#include "base/error.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GOODBYE_MS = 1000 }; /* for the answer to QUIT: nothing hangs on it */

/* ---- callbacks of libcurl ---------------------------------------------------------------------------------------- */

static size_t on_line(char *data, size_t size, size_t count, void *ctx)
{
    struct ob_smtp_link *link = ctx;
    ob_smtp_reply_line(&link->reply, data, size * count);
    /* libcurl sends QUIT to a server that refused a mail, and waits for the answer, before it reports the refusal. */
    if (link->reply.begun && ob_smtp_reply_refuses(&link->reply))
        curl_easy_setopt(link->easy, CURLOPT_SERVER_RESPONSE_TIMEOUT, GOODBYE_MS / 1000L);
    return size * count;
}

static size_t on_nothing(char *data, size_t size, size_t count, void *ctx)
{
    (void)data;
    (void)ctx;
    return size * count;
}

static size_t on_read(char *room, size_t size, size_t count, void *ctx)
{
    struct ob_smtp_link *link = ctx;
    const struct ob_buf *mail = &link->job->mail.data;
    size_t left = mail->len - link->handed, take = size * count < left ? size * count : left;
    memcpy(room, mail->data + link->handed, take);
    link->handed += take;
    return take;
}

/* The connection is there, and we are logged in: the mail begins. */
static int on_begin(void *ctx, char *peer, char *own, int peer_port, int own_port)
{
    struct ob_smtp_link *link = ctx;
    (void)peer;
    (void)own;
    (void)peer_port;
    (void)own_port;
    /* libcurl continues without a login if the server offers none. The configuration requires a login, so we stop. */
    if (link->dialled && link->config->user && !link->reply.authenticated) {
        link->no_login = true;
        return CURL_PREREQFUNC_ABORT;
    }
    link->reply.begun = true;
    return CURL_PREREQFUNC_OK;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct ob_smtp_link *link = ctx;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return atomic_load(&link->off) || (link->job && atomic_load(&link->job->cancelled));
}

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct ob_smtp_link *link = ctx;
    (void)purpose;
    if (link->leaving)
        return CURL_SOCKET_BAD;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) {
        link->starved = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        return CURL_SOCKET_BAD;
    }
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < OB_SMTP_FDS; i++)
        if (link->fds[i] < 0) {
            link->fds[i] = fd;
            break;
        }
    pthread_mutex_unlock(&link->lock);
    link->dialled = true;
    return fd;
}

static int on_close(void *ctx, curl_socket_t fd)
{
    struct ob_smtp_link *link = ctx;
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < OB_SMTP_FDS; i++)
        if (link->fds[i] == fd)
            link->fds[i] = -1;
    int result = close(fd);
    pthread_mutex_unlock(&link->lock);
    return result;
}

/* ---- the handle -------------------------------------------------------------------------------------------------- */

static bool configure(struct ob_smtp_link *link, CURL *easy)
{
    const struct ob_smtp_config *config = link->config;
    bool ok = true;
#define SET(name, value) ok = curl_easy_setopt(easy, CURLOPT_##name, value) == CURLE_OK && ok
#define SET_GIVEN(name, value) \
    if (value) \
    SET(name, value)
    SET(URL, config->url);
    SET(PROTOCOLS_STR, "smtp,smtps");
    SET(PROXY, "");
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(NOSIGNAL, 1L);
    SET(ERRORBUFFER, link->error);
    SET(USE_SSL, config->tls_required ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_NONE);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    ok = ob_curl_tls(easy, &config->tls) && ok;
    SET_GIVEN(USERNAME, config->user);
    SET_GIVEN(PASSWORD, config->password);
    SET_GIVEN(XOAUTH2_BEARER, config->token);
    SET_GIVEN(LOGIN_OPTIONS, config->login_options);
    SET(TCP_KEEPALIVE, 1L);
    SET(TCP_NODELAY, 1L);
    SET(MAXCONNECTS, 1L);
    SET(MAXAGE_CONN, (long)((config->idle_us + 999999) / 1000000));
    SET(CONNECTTIMEOUT_MS, (long)(config->connect_us / 1000));
    SET(TIMEOUT_MS, (long)(config->response_us / 1000));
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(QUICK_EXIT, 1L); /* does not wait for the resolver when it is cut */
#endif
    SET(HEADERFUNCTION, on_line);
    SET(HEADERDATA, link);
    SET(WRITEFUNCTION, on_nothing);
    SET(READFUNCTION, on_read);
    SET(READDATA, link);
    SET(PREREQFUNCTION, on_begin);
    SET(PREREQDATA, link);
    SET(NOPROGRESS, 0L);
    SET(XFERINFOFUNCTION, on_progress);
    SET(XFERINFODATA, link);
    SET(OPENSOCKETFUNCTION, on_open);
    SET(OPENSOCKETDATA, link);
    SET(CLOSESOCKETFUNCTION, on_close);
    SET(CLOSESOCKETDATA, link);
#undef SET_GIVEN
#undef SET
    return ok;
}

static CURL *handle_of(struct ob_smtp_link *link)
{
    if (link->easy)
        return link->easy;
    CURL *easy = curl_easy_init();
    if (easy && !configure(link, easy)) {
        curl_easy_cleanup(easy);
        easy = NULL;
    }
    link->easy = easy;
    return easy;
}

bool ob_smtp_link_init(struct ob_smtp_link *link, const struct ob_smtp_config *config)
{
    memset(link, 0, sizeof *link);
    link->config = config;
    for (int i = 0; i < OB_SMTP_FDS; i++)
        link->fds[i] = -1;
    return pthread_mutex_init(&link->lock, NULL) == 0;
}

void ob_smtp_link_abort(struct ob_smtp_link *link, bool for_good)
{
    if (for_good)
        atomic_store(&link->off, true);
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < OB_SMTP_FDS; i++)
        if (link->fds[i] >= 0)
            shutdown(link->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&link->lock);
}

static CURLcode perform(struct ob_smtp_link *link)
{
    ob_smtp_reply_reset(&link->reply);
    link->handed = 0;
    link->dialled = link->starved = link->no_login = false;
    link->error[0] = '\0';
    /* libcurl waits 120 s for a reply; RFC 5321 requires a longer wait after the end of a mail. */
    curl_easy_setopt(link->easy, CURLOPT_SERVER_RESPONSE_TIMEOUT,
                     (long)((link->config->response_us + 999999) / 1000000));
    return curl_easy_perform(link->easy);
}

/* ---- the end of a connection ------------------------------------------------------------------------------------- */

static bool is_connected(struct ob_smtp_link *link)
{
    bool found = false;
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < OB_SMTP_FDS; i++)
        found = found || link->fds[i] >= 0;
    pthread_mutex_unlock(&link->lock);
    return found;
}

/* QUIT as a separate request: libcurl would wait two minutes for the answer to the QUIT that it sends when freeing a handle. */
static void say_goodbye(struct ob_smtp_link *link)
{
    link->leaving = true;
    curl_easy_setopt(link->easy, CURLOPT_UPLOAD, 0L);
    curl_easy_setopt(link->easy, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(link->easy, CURLOPT_TIMEOUT_MS, (long)GOODBYE_MS);
    curl_easy_setopt(link->easy, CURLOPT_MAXAGE_CONN, 0x7fffffffL / 1000);
    if (curl_easy_setopt(link->easy, CURLOPT_CUSTOMREQUEST, "QUIT") == CURLE_OK)
        perform(link);
    link->leaving = false;
    ob_smtp_link_abort(link, false); /* so that nothing more is said */
}

void ob_smtp_link_close(struct ob_smtp_link *link)
{
    if (link->easy && is_connected(link))
        say_goodbye(link);
    curl_easy_cleanup(link->easy);
    link->easy = NULL;
    link->mails = 0;
    link->worn = false;
}

void ob_smtp_link_fini(struct ob_smtp_link *link)
{
    ob_smtp_link_close(link);
    pthread_mutex_destroy(&link->lock);
}

/* ---- a mail ------------------------------------------------------------------------------------------------------ */

/* The server closed the connection after the last mail, or says so now: nothing was lost, and a new connection costs the
 * message no attempt. */
static bool was_stale(const struct ob_smtp_link *link)
{
    const struct ob_smtp_reply *reply = &link->reply;
    return !link->dialled && ob_smtp_reply_stage(reply, false) == OB_SMTP_MAIL &&
           (reply->replies == 0 || reply->code == 421);
}

static void job_report(struct ob_smtp_link *link, CURLcode result)
{
    struct ob_smtp_job *job = link->job;
    bool all = !job->ping && link->handed == job->mail.data.len;
    struct ob_smtp_end end = {
        .curl = link->no_login ? CURLE_LOGIN_DENIED : (int)result,
        .stage = ob_smtp_reply_stage(&link->reply, all),
        .reply = &link->reply,
        .greylist_us = link->config->greylist_us,
        .starved = link->starved && !link->dialled,
        .error = link->no_login ? "a user is configured, but the server does not offer AUTH" : link->error,
    };
    ob_smtp_judge(&end, job->code, &job->verdict);
    if (job->verdict.text) {
        snprintf(job->text, sizeof job->text, "%s", job->verdict.text);
        job->verdict.text = job->text;
    }
    if (job->verdict.outcome == OUTBOX_SINK_ACCEPTED && !job->ping &&
        ob_smtp_reference(&link->reply, job->reference, sizeof job->reference))
        job->verdict.reference = job->reference;
}

static void job_report_unsent(struct ob_smtp_job *job, enum outbox_code code, const char *problem, const char *text)
{
    struct outbox_verdict *verdict = &job->verdict;
    *verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID, lacking = code == OUTBOX_BUSY; /* a file that may still come */
    verdict->outcome = wrong ? OUTBOX_SINK_TERMINAL : lacking ? OUTBOX_SINK_RETRY : OUTBOX_SINK_NOT_SENT;
    verdict->not_before_us = wrong || lacking ? -1 : OB_SHORTAGE_US;
    verdict->local = true;
    snprintf(job->code, sizeof job->code, "%s", problem ? problem : "out_of_memory");
    snprintf(job->text, sizeof job->text, "%s", text);
    verdict->code = job->code;
    verdict->text = job->text;
}

static void send_mail(struct ob_smtp_link *link, CURL *easy)
{
    struct ob_smtp_job *job = link->job;
    struct curl_slist *recipient = curl_slist_append(NULL, job->mail.recipient);
    if (!recipient || curl_easy_setopt(easy, CURLOPT_MAIL_FROM, link->config->envelope_from) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, recipient) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)job->mail.data.len) != CURLE_OK) {
        job_report_unsent(job, OUTBOX_NOMEM, NULL, "out of memory");
    } else {
        CURLcode result = perform(link);
        if (result != CURLE_OK && was_stale(link) && !on_progress(link, 0, 0, 0, 0)) {
            curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
            result = perform(link);
            curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 0L);
        }
        job_report(link, result);
        link->mails = link->dialled ? 1 : link->mails + 1;
    }
    curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, NULL);
    curl_slist_free_all(recipient);
}

/* Connects, does the TLS handshake, logs in, and sends nothing else. */
static void ping(struct ob_smtp_link *link, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 0L);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "NOOP");
    job_report(link, perform(link));
    link->worn = true;
}

void ob_smtp_link_run(struct ob_smtp_link *link, struct ob_smtp_job *job)
{
    struct outbox_error err;
    if (job->ping)
        ob_smtp_link_close(link); /* so that it sees a server as a new connection does */
    CURL *easy = handle_of(link);
    enum outbox_code code = easy ? OUTBOX_OK : ob_error_nomem(&err);
    link->job = job;
    if (!code && !job->ping)
        code = ob_smtp_mail_attach(&job->mail, link->config, &err);
    if (code)
        job_report_unsent(job, code, code == OUTBOX_NOMEM ? NULL : job->mail.code, err.text);
    else if (job->ping)
        ping(link, easy);
    else
        send_mail(link, easy);
    link->job = NULL;
    if (link->config->per_connection && link->mails >= link->config->per_connection)
        link->worn = true;
}
