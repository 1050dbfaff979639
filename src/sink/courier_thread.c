/* courier_thread.c - the courier's own thread: takes parcels, keeps the connection, lets the driver send; see courier.h.
 *
 * Invariants: a parcel is in `todo` until it is sent and in `out` until its verdict is known. Without a connection
 * nothing is out. Parcels that could not be sent because there is no connection come back at once with the reason, all of
 * them: how long to wait before the next try is the relay's business. */
#include "sink/courier_int.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- for drivers ---- */

void ob_courier_kick(struct ob_courier *courier)
{
    uint64_t one = 1;
    ssize_t put = write(courier->event_fd, &one, sizeof one);
    (void)put; /* full means that it is kicked already */
}

int64_t ob_courier_left_us(const struct ob_courier *courier)
{
    int64_t left = courier->connect_until_us - ob_clock_mono_us();
    return left > 1000 ? left : 1000;
}

void ob_parcel_end(struct ob_courier *courier, struct ob_parcel *parcel)
{
    if (parcel->sent_us) {
        parcel->sent_us = 0;
        courier->out_count--;
    }
    ob_list_remove(&parcel->node);
    pthread_mutex_lock(&courier->mutex);
    bool first = ob_list_empty(&courier->back);
    ob_list_push(&courier->back, &parcel->node);
    if (first && !courier->stop)
        courier->host->wake(courier->host->ctx);
    pthread_mutex_unlock(&courier->mutex);
}

void ob_parcel_accepted(struct ob_courier *courier, struct ob_parcel *parcel, const char *reference, const char *text)
{
    memset(&parcel->ruling, 0, sizeof parcel->ruling);
    parcel->ruling.outcome = OUTBOX_SINK_ACCEPTED;
    parcel->ruling.not_before_us = -1;
    snprintf(parcel->ruling.reference, sizeof parcel->ruling.reference, "%s", reference ? reference : "");
    snprintf(parcel->ruling.text, sizeof parcel->ruling.text, "%s", text ? text : "");
    ob_parcel_end(courier, parcel);
}

void ob_parcel_again(struct ob_courier *courier, struct ob_parcel *parcel)
{
    courier->out_count--;
    parcel->sent_us = 0;
    parcel->tries++;
    ob_list_remove(&parcel->node);
    ob_list_push_front(&courier->todo, &parcel->node);
}

void ob_courier_lost(struct ob_courier *courier, const char *name, const char *format, ...)
{
    char text[300];
    va_list args;
    if (courier->lost)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    courier->lost = true;
    ob_ruling_set(&courier->why, OUTBOX_SINK_UNKNOWN, courier->driver->prefix, name, "%s", text);
    courier->why.unreachable = true;
}

void ob_courier_drain(struct ob_courier *courier)
{
    courier->draining = true;
}

void ob_courier_hold(struct ob_courier *courier, const char *name, const char *text)
{
    courier->held = true;
    ob_ruling_set(&courier->why, OUTBOX_SINK_LIMITED, courier->driver->prefix, name, "%s", text);
}

/* The answers to what was out all the while come now: their time begins anew. */
void ob_courier_unhold(struct ob_courier *courier)
{
    int64_t now = ob_clock_mono_us();
    OB_LIST_EACH (it, &courier->out)
        OB_CONTAINER(it, struct ob_parcel, node)->sent_us = now;
    courier->held = false;
}

/* ---- the work ---- */

static void end_all(struct ob_courier *courier, struct ob_list *list, const struct ob_ruling *ruling)
{
    while (!ob_list_empty(list)) {
        struct ob_parcel *parcel = OB_CONTAINER(list->next, struct ob_parcel, node);
        parcel->ruling = *ruling;
        ob_parcel_end(courier, parcel);
    }
}

static void hang_up(struct ob_courier *courier)
{
    if (courier->connected)
        courier->driver->disconnect(courier->self);
    courier->connected = courier->lost = courier->draining = courier->held = false;
}

/* What is out may have been taken. */
static void give_up(struct ob_courier *courier)
{
    struct ob_ruling why = courier->why;
    hang_up(courier);
    end_all(courier, &courier->out, &why);
}

static bool connect_now(struct ob_courier *courier)
{
    struct ob_ruling why;
    ob_ruling_set(&why, OUTBOX_SINK_RETRY, courier->driver->prefix, "connect", "no connection");
    why.unreachable = true;
    courier->lost = courier->draining = courier->held = false;
    courier->connect_until_us = ob_clock_mono_us() + courier->connect_timeout_us;
    courier->connected = courier->driver->connect(courier->self, &why);
    if (!courier->connected)
        end_all(courier, &courier->todo, &why);
    return courier->connected;
}

static void probe_now(struct ob_courier *courier, struct ob_parcel *parcel)
{
    struct ob_ruling ruling = {.outcome = OUTBOX_SINK_ACCEPTED, .not_before_us = -1};
    if (courier->driver->probe)
        courier->driver->probe(courier->self, &ruling);
    parcel->ruling = ruling;
    ob_parcel_end(courier, parcel);
}

static void send_one(struct ob_courier *courier, struct ob_parcel *parcel)
{
    if (atomic_load(&parcel->cancelled)) {
        ob_ruling_set(&parcel->ruling, OUTBOX_SINK_NOT_SENT, courier->driver->prefix, "cancelled", "cancelled");
        ob_parcel_end(courier, parcel);
    } else if (parcel->probe) {
        probe_now(courier, parcel);
    } else {
        ob_list_remove(&parcel->node);
        ob_list_push(&courier->out, &parcel->node);
        parcel->sent_us = ob_clock_mono_us();
        courier->out_count++;
        courier->driver->send(courier->self, parcel);
    }
}

static void send_all(struct ob_courier *courier)
{
    bool any = false;
    if (ob_list_empty(&courier->todo))
        return;
    if (!courier->connected && !connect_now(courier))
        return;
    while (!ob_list_empty(&courier->todo) && courier->out_count < courier->window && !courier->lost &&
           !courier->draining && !courier->held) {
        send_one(courier, OB_CONTAINER(courier->todo.next, struct ob_parcel, node));
        any = true;
    }
    if (any && courier->driver->flush && !courier->lost)
        courier->driver->flush(courier->self);
    if (courier->held)
        end_all(courier, &courier->todo, &courier->why);
}

static int64_t oldest_us(const struct ob_courier *courier)
{
    int64_t oldest = INT64_MAX;
    OB_LIST_EACH (it, &courier->out) {
        const struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, node);
        oldest = parcel->sent_us < oldest ? parcel->sent_us : oldest;
        break; /* they are in the order in which they were sent */
    }
    return oldest;
}

/* A broker that holds us answers when it takes messages again. */
static void check_time(struct ob_courier *courier, int64_t now)
{
    int64_t oldest = oldest_us(courier);
    if (courier->connected && !courier->held && oldest != INT64_MAX && now - oldest >= courier->ack_timeout_us)
        ob_courier_lost(courier, "timeout", "no answer for %lld ms", (long long)(courier->ack_timeout_us / 1000));
}

static int timeout_ms(const struct ob_courier *courier, int64_t now)
{
    /* no time limit runs while it holds us */
    int64_t oldest = courier->held ? INT64_MAX : oldest_us(courier),
            wait = courier->driver->tick_us ? courier->driver->tick_us : 1000000;
    bool may_send = !courier->connected || (courier->out_count < courier->window && !courier->draining);
    if (!ob_list_empty(&courier->todo) && may_send)
        return 0;
    if (oldest != INT64_MAX && oldest + courier->ack_timeout_us - now < wait)
        wait = oldest + courier->ack_timeout_us - now;
    if (!courier->connected)
        return -1;
    return wait <= 0 ? 0 : (int)(wait / 1000) + 1;
}

static void wait_and_serve(struct ob_courier *courier)
{
    struct pollfd fds[2] = {{.fd = courier->event_fd, .events = POLLIN}, {.fd = -1}};
    uint64_t count;
    if (courier->connected)
        fds[1].fd = courier->driver->fd(courier->self, &fds[1].events);
    (void)poll(fds, 2, timeout_ms(courier, ob_clock_mono_us()));
    if (fds[0].revents) {
        ssize_t got = read(courier->event_fd, &count, sizeof count);
        (void)got;
    }
    if (courier->connected)
        courier->driver->serve(courier->self, fds[1].revents); /* 0 when there is none to poll */
}

static bool take(struct ob_courier *courier)
{
    struct ob_list *node;
    pthread_mutex_lock(&courier->mutex);
    bool stop = courier->stop;
    while ((node = ob_list_shift(&courier->queue)))
        ob_list_push(&courier->todo, node);
    pthread_mutex_unlock(&courier->mutex);
    return !stop;
}

void *ob_courier_run(void *arg)
{
    struct ob_courier *courier = arg;
    sigset_t all;
    sigfillset(&all); /* signals are the loop's business; a broken pipe is an error of write */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (take(courier)) {
        send_all(courier);
        if (!courier->lost)
            wait_and_serve(courier);
        check_time(courier, ob_clock_mono_us());
        if (courier->lost)
            give_up(courier);
        else if (courier->draining && !courier->out_count)
            hang_up(courier);
    }
    hang_up(courier);
    pthread_mutex_lock(&courier->mutex);
    bool abandoned = courier->abandoned;
    courier->finished = true;
    pthread_mutex_unlock(&courier->mutex);
    if (abandoned)
        ob_courier_free(courier);
    return NULL;
}
