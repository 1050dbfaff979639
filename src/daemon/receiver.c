/* receiver.c - see receiver.h. A thread per connection: there are few, and a slow answer may sleep. */
#include "daemon/receiver.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BODY_MOST = 4 * 1024 * 1024, CONNECTIONS = 128, IDLE_S = 60, SLOW_S = 3 };

struct ob_receiver {
    struct ob_receiver_options set;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* guards answer and stop, and makes calls of the caller's functions one at a time */
    pthread_cond_t woken; /* stop is set */
    enum ob_receiver_answer answer;
    bool stop;
};

struct request {
    struct ob_buf body;
    bool too_large;
};

static const struct {
    const char *word;
    int status;
    const char *text;
} answers[] = {
#define OB_RECEIVER_ROW(name, word, status, text) {word, status, text},
    OB_RECEIVER_ANSWERS(OB_RECEIVER_ROW)
#undef OB_RECEIVER_ROW
};
enum { ANSWERS = sizeof answers / sizeof answers[0] };

bool ob_receiver_find(const char *word, size_t len, enum ob_receiver_answer *answer)
{
    for (size_t i = 0; i < ANSWERS; i++)
        if (strlen(answers[i].word) == len && memcmp(answers[i].word, word, len) == 0) {
            *answer = (enum ob_receiver_answer)i;
            return true;
        }
    return false;
}

const char *ob_receiver_word(enum ob_receiver_answer answer)
{
    return answers[answer].word;
}

const char *ob_receiver_text(enum ob_receiver_answer answer)
{
    return answers[answer].text;
}

void ob_receiver_set(struct ob_receiver *receiver, enum ob_receiver_answer answer)
{
    pthread_mutex_lock(&receiver->lock);
    receiver->answer = answer;
    pthread_mutex_unlock(&receiver->lock);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static enum MHD_Result say(struct MHD_Connection *connection, int status, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "2");
    enum MHD_Result sent = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return sent;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Waits as a slow receiver does; ends at once when the receiver stops. Called under the lock. */
static void be_slow(struct ob_receiver *receiver)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SLOW_S;
    while (!receiver->stop && pthread_cond_timedwait(&receiver->woken, &receiver->lock, &until) == 0)
        ;
}

static enum MHD_Result take(struct ob_receiver *receiver, struct MHD_Connection *connection, struct request *request)
{
    static const char *const texts[] = {[OB_RECEIVER_FAIL] = "told to fail", [OB_RECEIVER_REFUSE] = "told to refuse"};
    pthread_mutex_lock(&receiver->lock);
    enum ob_receiver_answer answer = receiver->answer;
    if (answer == OB_RECEIVER_SLOW)
        be_slow(receiver);
    struct ob_receiver_delivery delivery = {.topic = header(connection, "outbox-topic"),
                                            .key = header(connection, "outbox-key"),
                                            .id = header(connection, "webhook-id"),
                                            .attempt = header(connection, "outbox-attempt"),
                                            .body = ob_buf_text(&request->body),
                                            .len = request->body.len,
                                            .status = answers[answer].status};
    if (receiver->set.delivered)
        receiver->set.delivered(receiver->set.ctx, &delivery);
    pthread_mutex_unlock(&receiver->lock);
    if (answer == OB_RECEIVER_DOWN)
        return MHD_NO;
    bool known = (size_t)answer < sizeof texts / sizeof texts[0] && texts[answer];
    return say(connection, answers[answer].status, known ? texts[answer] : "");
}

static enum MHD_Result change(struct ob_receiver *receiver, struct MHD_Connection *connection,
                              const struct request *request)
{
    enum ob_receiver_answer answer;
    size_t len = request->body.len;
    const char *word = ob_buf_text(&request->body);
    while (len > 0 && (word[len - 1] == '\n' || word[len - 1] == '\r'))
        len--;
    if (!ob_receiver_find(word, len, &answer))
        return say(connection, MHD_HTTP_BAD_REQUEST, "send one of these words: ok, fail, refuse, limit, slow, down\n");
    pthread_mutex_lock(&receiver->lock);
    receiver->answer = answer;
    if (receiver->set.changed)
        receiver->set.changed(receiver->set.ctx, answer);
    pthread_mutex_unlock(&receiver->lock);
    return say(connection, MHD_HTTP_OK, answers[answer].word);
}

static enum MHD_Result show(struct ob_receiver *receiver, struct MHD_Connection *connection)
{
    pthread_mutex_lock(&receiver->lock);
    enum ob_receiver_answer answer = receiver->answer;
    pthread_mutex_unlock(&receiver->lock);
    return say(connection, MHD_HTTP_OK, answers[answer].word);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result answer_request(struct ob_receiver *receiver, struct MHD_Connection *connection, const char *path,
                                      const char *method, struct request *request)
{
    bool control = strcmp(path, "/answer") == 0;
    if (header(connection, "Origin"))
        return say(connection, MHD_HTTP_FORBIDDEN, "not for pages of other sites\n");
    if (request->too_large || !ob_buf_ok(&request->body))
        return say(connection, MHD_HTTP_CONTENT_TOO_LARGE, "more than 4 MiB\n");
    if (control && strcmp(method, "GET") == 0)
        return show(receiver, connection);
    if (control && strcmp(method, "PUT") == 0)
        return change(receiver, connection, request);
    if (!control && strcmp(method, "POST") == 0)
        return take(receiver, connection, request);
    return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "POST a message, or GET or PUT /answer\n");
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **state)
{
    struct request *request = *state;
    (void)version;
    if (!request) {
        *state = request = ob_calloc(1, sizeof *request);
        return request ? MHD_YES : MHD_NO;
    }
    if (*data_size > 0) {
        request->too_large = request->too_large || request->body.len + *data_size > BODY_MOST;
        if (!request->too_large)
            ob_buf_put(&request->body, data, *data_size);
        *data_size = 0;
        return MHD_YES;
    }
    return answer_request(ctx, connection, path, method, request);
}

static void on_ended(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;
    (void)ctx;
    (void)connection;
    (void)code;
    if (request)
        ob_buf_fini(&request->body);
    ob_free(request);
    *state = NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

enum outbox_code ob_receiver_start(const struct ob_receiver_options *options, struct ob_receiver **out,
                                   struct outbox_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ob_receiver *receiver = ob_calloc(1, sizeof *receiver);
    *out = receiver;
    if (!receiver)
        return ob_error_nomem(err);
    receiver->set = *options;
    receiver->answer = options->answer;
    pthread_mutex_init(&receiver->lock, NULL);
    pthread_cond_init(&receiver->woken, NULL);
    receiver->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL, on_request,
                         receiver, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_NOTIFY_COMPLETED,
                         on_ended, receiver, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (receiver->daemon)
        return OUTBOX_OK;
    ob_receiver_stop(receiver);
    *out = NULL;
    return ob_error_set(err, OUTBOX_INTERNAL, "cannot start a receiver on 127.0.0.1");
}

void ob_receiver_stop(struct ob_receiver *receiver)
{
    if (!receiver)
        return;
    pthread_mutex_lock(&receiver->lock);
    receiver->stop = true;
    pthread_cond_broadcast(&receiver->woken);
    pthread_mutex_unlock(&receiver->lock);
    if (receiver->daemon)
        MHD_stop_daemon(receiver->daemon);
    pthread_cond_destroy(&receiver->woken);
    pthread_mutex_destroy(&receiver->lock);
    ob_free(receiver);
}

int ob_receiver_port(const struct ob_receiver *receiver)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(receiver->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}
