/* thread.c - the thread of a broker sink: takes jobs, keeps the connection, lets the driver send; see broker.h.
 *
 * Invariants: a job is in `todo` until it is sent, and in `out` until its verdict is known. Without a connection nothing is
 * in flight. If there is no connection, all waiting jobs come back at once with the reason: the relay decides how long to
 * wait before the next attempt. */
#include "sink/broker/broker_int.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- for drivers ---- */

void ob_broker_kick(struct ob_broker *broker)
{
    uint64_t one = 1;
    ssize_t put = write(broker->event_fd, &one, sizeof one);
    (void)put; /* full means that it is kicked already */
}

int64_t ob_broker_left_us(const struct ob_broker *broker)
{
    int64_t left = broker->connect_until_us - ob_clock_mono_us();
    return left > 1000 ? left : 1000;
}

void ob_broker_job_end(struct ob_broker *broker, struct ob_broker_job *job)
{
    if (job->sent_us) {
        job->sent_us = 0;
        broker->out_count--;
    }
    ob_list_remove(&job->node);
    pthread_mutex_lock(&broker->mutex);
    bool first = ob_list_empty(&broker->back);
    ob_list_push(&broker->back, &job->node);
    if (first && !broker->stop)
        broker->host->wake(broker->host->ctx);
    pthread_mutex_unlock(&broker->mutex);
}

void ob_broker_job_accepted(struct ob_broker *broker, struct ob_broker_job *job, const char *reference,
                            const char *text)
{
    memset(&job->verdict, 0, sizeof job->verdict);
    job->verdict.outcome = OUTBOX_SINK_ACCEPTED;
    job->verdict.not_before_us = -1;
    snprintf(job->verdict.reference, sizeof job->verdict.reference, "%s", reference ? reference : "");
    snprintf(job->verdict.text, sizeof job->verdict.text, "%s", text ? text : "");
    ob_broker_job_end(broker, job);
}

void ob_broker_job_again(struct ob_broker *broker, struct ob_broker_job *job)
{
    broker->out_count--;
    job->sent_us = 0;
    job->tries++;
    ob_list_remove(&job->node);
    ob_list_push_front(&broker->todo, &job->node);
}

void ob_broker_lost(struct ob_broker *broker, const char *name, const char *format, ...)
{
    char text[300];
    va_list args;
    if (broker->lost)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    broker->lost = true;
    ob_verdict_set(&broker->why, OUTBOX_SINK_UNKNOWN, broker->driver->prefix, name, "%s", text);
    broker->why.unreachable = true;
}

void ob_broker_drain(struct ob_broker *broker)
{
    broker->draining = true;
}

void ob_broker_hold(struct ob_broker *broker, const char *name, const char *text)
{
    broker->held = true;
    ob_verdict_set(&broker->why, OUTBOX_SINK_LIMITED, broker->driver->prefix, name, "%s", text);
}

/* The answers to jobs in flight come only now: their time limit starts again. */
void ob_broker_unhold(struct ob_broker *broker)
{
    int64_t now = ob_clock_mono_us();
    OB_LIST_EACH (it, &broker->out)
        OB_CONTAINER(it, struct ob_broker_job, node)->sent_us = now;
    broker->held = false;
}

/* ---- the work ---- */

static void end_all(struct ob_broker *broker, struct ob_list *list, const struct ob_verdict *verdict)
{
    while (!ob_list_empty(list)) {
        struct ob_broker_job *job = OB_CONTAINER(list->next, struct ob_broker_job, node);
        job->verdict = *verdict;
        ob_broker_job_end(broker, job);
    }
}

static void hang_up(struct ob_broker *broker)
{
    if (broker->connected)
        broker->driver->disconnect(broker->self);
    broker->connected = broker->lost = broker->draining = broker->held = false;
}

/* The broker may have taken the jobs in flight. */
static void give_up(struct ob_broker *broker)
{
    struct ob_verdict why = broker->why;
    hang_up(broker);
    end_all(broker, &broker->out, &why);
}

static bool connect_now(struct ob_broker *broker)
{
    struct ob_verdict why;
    ob_verdict_set(&why, OUTBOX_SINK_RETRY, broker->driver->prefix, "connect", "no connection");
    why.unreachable = true;
    broker->lost = broker->draining = broker->held = false;
    broker->connect_until_us = ob_clock_mono_us() + broker->connect_timeout_us;
    broker->connected = broker->driver->connect(broker->self, &why);
    if (!broker->connected)
        end_all(broker, &broker->todo, &why);
    return broker->connected;
}

static void ping_now(struct ob_broker *broker, struct ob_broker_job *job)
{
    struct ob_verdict verdict = {.outcome = OUTBOX_SINK_ACCEPTED, .not_before_us = -1};
    if (broker->driver->ping)
        broker->driver->ping(broker->self, &verdict);
    job->verdict = verdict;
    ob_broker_job_end(broker, job);
}

static void send_one(struct ob_broker *broker, struct ob_broker_job *job)
{
    if (atomic_load(&job->cancelled)) {
        ob_verdict_set(&job->verdict, OUTBOX_SINK_NOT_SENT, broker->driver->prefix, "cancelled", "cancelled");
        ob_broker_job_end(broker, job);
    } else if (job->ping) {
        ping_now(broker, job);
    } else {
        ob_list_remove(&job->node);
        ob_list_push(&broker->out, &job->node);
        job->sent_us = ob_clock_mono_us();
        broker->out_count++;
        broker->driver->send(broker->self, job);
    }
}

static void send_all(struct ob_broker *broker)
{
    bool any = false;
    if (ob_list_empty(&broker->todo))
        return;
    if (!broker->connected && !connect_now(broker))
        return;
    while (!ob_list_empty(&broker->todo) && broker->out_count < broker->in_flight_max && !broker->lost &&
           !broker->draining && !broker->held) {
        send_one(broker, OB_CONTAINER(broker->todo.next, struct ob_broker_job, node));
        any = true;
    }
    if (any && broker->driver->flush && !broker->lost)
        broker->driver->flush(broker->self);
    if (broker->held)
        end_all(broker, &broker->todo, &broker->why);
}

static int64_t oldest_us(const struct ob_broker *broker)
{
    int64_t oldest = INT64_MAX;
    OB_LIST_EACH (it, &broker->out) {
        const struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        oldest = job->sent_us < oldest ? job->sent_us : oldest;
        break; /* they are in the order in which they were sent */
    }
    return oldest;
}

/* A broker that holds us answers when it takes messages again. */
static void check_time(struct ob_broker *broker, int64_t now)
{
    int64_t oldest = oldest_us(broker);
    if (broker->connected && !broker->held && oldest != INT64_MAX && now - oldest >= broker->ack_timeout_us)
        ob_broker_lost(broker, "timeout", "no answer for %lld ms", (long long)(broker->ack_timeout_us / 1000));
}

static int timeout_ms(const struct ob_broker *broker, int64_t now)
{
    /* no time limit runs while it holds us */
    int64_t oldest = broker->held ? INT64_MAX : oldest_us(broker),
            wait = broker->driver->tick_us ? broker->driver->tick_us : 1000000;
    bool may_send = !broker->connected || (broker->out_count < broker->in_flight_max && !broker->draining);
    if (!ob_list_empty(&broker->todo) && may_send)
        return 0;
    if (oldest != INT64_MAX && oldest + broker->ack_timeout_us - now < wait)
        wait = oldest + broker->ack_timeout_us - now;
    if (!broker->connected)
        return -1;
    return wait <= 0 ? 0 : (int)(wait / 1000) + 1;
}

static void wait_and_serve(struct ob_broker *broker)
{
    struct pollfd fds[2] = {{.fd = broker->event_fd, .events = POLLIN}, {.fd = -1}};
    uint64_t count;
    if (broker->connected)
        fds[1].fd = broker->driver->fd(broker->self, &fds[1].events);
    (void)poll(fds, 2, timeout_ms(broker, ob_clock_mono_us()));
    if (fds[0].revents) {
        ssize_t got = read(broker->event_fd, &count, sizeof count);
        (void)got;
    }
    if (broker->connected)
        broker->driver->serve(broker->self, fds[1].revents); /* 0 when there is none to poll */
}

static bool take(struct ob_broker *broker)
{
    struct ob_list *node;
    pthread_mutex_lock(&broker->mutex);
    bool stop = broker->stop;
    while ((node = ob_list_shift(&broker->queue)))
        ob_list_push(&broker->todo, node);
    pthread_mutex_unlock(&broker->mutex);
    return !stop;
}

void *ob_broker_run(void *arg)
{
    struct ob_broker *broker = arg;
    sigset_t all;
    sigfillset(&all); /* signals are the loop's business; a broken pipe is an error of write */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (take(broker)) {
        send_all(broker);
        if (!broker->lost)
            wait_and_serve(broker);
        check_time(broker, ob_clock_mono_us());
        if (broker->lost)
            give_up(broker);
        else if (broker->draining && !broker->out_count)
            hang_up(broker);
    }
    hang_up(broker);
    pthread_mutex_lock(&broker->mutex);
    bool abandoned = broker->abandoned;
    broker->finished = true;
    pthread_mutex_unlock(&broker->mutex);
    if (abandoned)
        ob_broker_free(broker);
    return NULL;
}
