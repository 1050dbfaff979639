/* maintenance.c - see maintenance.h.
 *
 * The thread fills its own notebook and swaps it with the one that the loop reads, under a lock that is held only for the
 * swap.
 *
 * A call may never return: another session holds a lock in the database, or the server hangs. Stopping does not wait for
 * that. The thread is then abandoned and ends by itself when the call returns, so it owns everything that it uses, and
 * does not touch anything of the host after `stop` is set. An abandoned thread writes nothing more to the store: another
 * relay may use its name by then. */
#include "daemon/maintenance.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "core/history.h"
#include "daemon/notify.h"
#include "lib/open.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BEAT_US = 10000000,
    COUNT_US = 15000000,
    HISTORY_US = 15000000,
    NOTIFY_US = 5000000,
    BACKOFF_US = 500000,
    BACKOFF_CAP_US = 5000000,
    PATIENCE_US = 2000000
};
enum { LIST_MAX = 1 << 17, LANES_MAX = 50000 };

/* A list in an arena that grows by doubling; outgrown copies stay in the arena until it is emptied. */
struct list {
    void *items;
    size_t count, room;
};

struct notebook {
    struct ob_maintenance_report report;
    struct ob_arena arena;
    struct list lanes, paused, tunings, gauges, topics, unrouted;
    bool failed; /* no memory: the lists are incomplete and must not be used */
};

struct ob_maintenance {
    char *url, *schema, *name, *worker; /* of the store, and of this relay */
    char *info;                         /* what the heartbeats report about this relay; used by the thread only */
    char *next_info;                    /* under the lock: replaces info; NULL: no change */
    struct terms {
        const char *state;
        int64_t control_every_us, purge_every_us;
        struct ob_notify notify;
        struct ob_log log;
    } terms, next;    /* next: under the lock; the thread takes it over in its next round */
    uv_async_t *loop; /* the host's: not used after stop */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, over;
    bool stop, hurry, fresh;  /* under the lock, like the next six lines */
    bool topics, headers;     /* with hurry: count by topic; count what no route matched by its headers */
    int64_t stop_us;          /* when stop was requested */
    bool ended;               /* the thread has ended */
    bool left;                /* nobody waits for it: it frees itself */
    bool silent;              /* another relay may use its name: do not record the end in the store */
    struct ob_figures done;   /* what this relay did since it began */
    struct notebook books[4]; /* written by the thread; ready; read by the loop; the last with control */
    struct notebook *writing, *ready, *reading, *control;
    struct ob_store *store; /* used by the thread only, like all members below */
    int64_t backoff_us;
    int64_t control_at, beat_at, count_at, purge_at, open_at, history_at, notify_at;
    struct ob_figures recorded;  /* what of `done` is in the store */
    struct ob_gauges_row totals; /* as the leader counted them last */
    bool totalled;
    bool leads;
    bool looked; /* succeeded once: the store is usable, whatever fails later */
};

/* What a round was requested to do in addition to what is due. */
struct wish {
    bool hurry, topics, headers;
};

/* ---- notes ---- */

static void *add(struct notebook *book, struct list *list, size_t size)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 16;
        void *items = room <= LIST_MAX ? ob_arena_alloc(&book->arena, room * size) : NULL;
        if (!items) {
            book->failed = true;
            return NULL;
        }
        if (list->count > 0)
            memcpy(items, list->items, list->count * size);
        list->items = items;
        list->room = room;
    }
    void *item = (char *)list->items + list->count++ * size;
    memset(item, 0, size);
    return item;
}

static const char *keep(struct notebook *book, const char *text)
{
    const char *copy = text ? ob_arena_strdup(&book->arena, text) : NULL;
    book->failed = book->failed || (text && !copy);
    return copy;
}

/* The store applies pauses of namespaces and topics in its claims. */
static void on_paused(void *ctx, const struct ob_pause_row *pause)
{
    struct notebook *book = ctx;
    book->report.pause_count++;
    const char **name = pause->sink ? add(book, &book->paused, sizeof *name) : NULL;
    if (name)
        *name = keep(book, pause->sink);
}

static void on_tuned(void *ctx, const struct ob_tuning_row *row)
{
    struct notebook *book = ctx;
    struct ob_tuning tuning, *kept;
    /* A name from a newer version is ignored. */
    if (ob_tuning_parse(row->name, row->value, &tuning, NULL) == OUTBOX_OK &&
        (kept = add(book, &book->tunings, sizeof *kept)))
        *kept = tuning;
}

static void on_lane(void *ctx, const char *name_space, const char *topic)
{
    struct notebook *book = ctx;
    if (book->lanes.count == LANES_MAX)
        return; /* the list only saves work: lanes that are not in it are claimed like any other */
    struct outbox_lane *lane = add(book, &book->lanes, sizeof *lane);
    if (lane)
        *lane = (struct outbox_lane){keep(book, name_space), keep(book, topic)};
}

static bool on_gauges(void *ctx, const struct ob_gauges_row *row)
{
    struct notebook *book = ctx;
    struct ob_gauges_row *kept = add(book, &book->gauges, sizeof *kept);
    if (kept) {
        *kept = *row;
        kept->name_space = keep(book, row->name_space);
    }
    return kept;
}

static bool on_topic(void *ctx, const struct ob_status_row *row)
{
    struct notebook *book = ctx;
    struct ob_status_row *kept = row->pending || row->processing ? add(book, &book->topics, sizeof *kept) : NULL;
    if (kept) {
        *kept = *row;
        kept->name_space = keep(book, row->name_space);
        kept->topic = keep(book, row->topic);
    }
    return true;
}

static bool on_unrouted(void *ctx, const struct ob_message_row *row)
{
    struct notebook *book = ctx;
    struct ob_unrouted *all = book->unrouted.items;
    for (size_t i = 0; i < book->unrouted.count; i++)
        if (strcmp(all[i].topic, row->topic) == 0 && strcmp(all[i].name_space, row->name_space) == 0) {
            all[i].count++;
            return true;
        }
    struct ob_unrouted *one = add(book, &book->unrouted, sizeof *one);
    if (one)
        *one = (struct ob_unrouted){keep(book, row->name_space), keep(book, row->topic), 1};
    return true;
}

static void book_empty(struct notebook *book)
{
    ob_arena_fini(&book->arena);
    *book = (struct notebook){0};
    ob_arena_init(&book->arena, 0);
}

static void book_publish(struct ob_maintenance *maintenance)
{
    struct notebook *book = maintenance->writing;
    struct ob_maintenance_report *report = &book->report;
    report->lanes = book->lanes.items;
    report->lane_count = book->lanes.count;
    report->paused = book->paused.items;
    report->paused_count = book->paused.count;
    report->tunings = book->tunings.items;
    report->tuning_count = book->tunings.count;
    report->gauges = book->gauges.items;
    report->gauges_count = book->gauges.count;
    report->topics = book->topics.items;
    report->topic_count = book->topics.count;
    report->unrouted = book->unrouted.items;
    report->unrouted_count = book->unrouted.count;
    report->leads = maintenance->leads;
    if (book->failed)
        report->controlled = report->counted = report->by_topic = false;
    pthread_mutex_lock(&maintenance->lock);
    if (maintenance->fresh) /* the loop has not read the last report: add its count */
        report->purged += maintenance->ready->report.purged;
    maintenance->writing = maintenance->ready;
    maintenance->ready = book;
    maintenance->fresh = true;
    if (!maintenance->stop)
        uv_async_send(maintenance->loop);
    pthread_mutex_unlock(&maintenance->lock);
    book_empty(maintenance->writing);
}

/* ---- the round ---- */

static void tell_trouble(struct ob_maintenance *maintenance, const struct outbox_error *err)
{
    if (maintenance->backoff_us == 0) /* the first failure in a row */
        ob_log(&maintenance->terms.log, maintenance->looked ? OB_LOG_WARN : OB_LOG_ERROR,
               maintenance->looked ? "maintenance connection lost: retrying"
                                   : "store unusable: deliveries suspended, retrying",
               OB_STR("store", maintenance->name), OB_STR("code", outbox_code_name(err->code)),
               OB_STR("error", err->text));
}

static void give_up_connection(struct ob_maintenance *maintenance, const struct outbox_error *err, int64_t now)
{
    tell_trouble(maintenance, err);
    maintenance->writing->report.err = *err;
    if (maintenance->store)
        maintenance->store->ops->close(maintenance->store);
    maintenance->store = NULL;
    maintenance->leads = false;
    maintenance->beat_at = 0; /* after reconnecting, send a heartbeat at once */
    maintenance->backoff_us = maintenance->backoff_us ? maintenance->backoff_us * 2 : BACKOFF_US;
    if (maintenance->backoff_us > BACKOFF_CAP_US)
        maintenance->backoff_us = BACKOFF_CAP_US;
    maintenance->open_at = now + maintenance->backoff_us;
}

static ob_code beat(struct ob_maintenance *maintenance, const char *state, struct outbox_error *err)
{
    char host[80] = "";
    gethostname(host, sizeof host - 1);
    struct ob_beat sign = {.worker = maintenance->worker,
                           .host = host,
                           .version = outbox_version(),
                           .state = state,
                           .info = maintenance->info,
                           .pid = (int)getpid(),
                           .every_us = BEAT_US};
    return maintenance->store->ops->beat(maintenance->store, &sign, &maintenance->leads, err);
}

static ob_code look(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    struct notebook *book = maintenance->writing;
    struct ob_control control = {.ctx = book, .paused = on_paused, .tuned = on_tuned, .lane = on_lane};
    ob_code code = maintenance->store->ops->control(maintenance->store, &control, err);
    book->report.controlled = !code;
    maintenance->looked = maintenance->looked || !code;
    return code;
}

static bool add_topic(void *ctx, const struct ob_status_row *row)
{
    struct ob_gauges_row *total = ctx;
    if (row->oldest_undelivered_s > total->oldest_undelivered_s)
        total->oldest_undelivered_s = row->oldest_undelivered_s;
    total->retrying += row->retrying;
    total->dead_last_hour += row->dead_last_hour;
    return true;
}

static ob_code count(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    struct notebook *book = maintenance->writing;
    ob_code code = maintenance->store->ops->gauges(maintenance->store, on_gauges, book, err);
    if (!code && book->gauges.count > 0) /* the total comes first */
        code = maintenance->store->ops->status(maintenance->store, add_topic, book->gauges.items, err);
    maintenance->writing->report.counted = !code;
    maintenance->totalled = !code && book->gauges.count > 0;
    if (maintenance->totalled)
        maintenance->totals = *(const struct ob_gauges_row *)book->gauges.items;
    return code;
}

/* Adds to the last hour in the store: see core/history.h. */
static ob_code record_history(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    pthread_mutex_lock(&maintenance->lock);
    struct ob_figures done = maintenance->done;
    pthread_mutex_unlock(&maintenance->lock);
    const struct ob_gauges_row *totals = &maintenance->totals;
    struct ob_history_row row = {
        .worker = maintenance->worker,
        .done = ob_figures_since(&done, &maintenance->recorded),
        .told = maintenance->leads && maintenance->totalled,
        .pending = totals->pending,
        .open = totals->pending + totals->processing,
        .oldest_s = totals->oldest_undelivered_s,
        .estimated = totals->estimated,
    };
    if (!row.told && ob_figures_none(&row.done))
        return OUTBOX_OK;
    ob_code code = maintenance->store->ops->record_history(maintenance->store, &row, err);
    if (!code)
        maintenance->recorded = done;
    return code;
}

/* For `run --until-empty`. */
static ob_code count_topics(struct ob_maintenance *maintenance, bool headers, struct outbox_error *err)
{
    enum { UNROUTED_MOST = 100000 };
    const struct ob_store_ops *ops = maintenance->store->ops;
    struct ob_filter filter = {.status_plus_1 = OB_PENDING + 1, .code = "unrouted", .limit = UNROUTED_MOST};
    ob_code code = ops->status(maintenance->store, on_topic, maintenance->writing, err);
    if (!code && headers)
        code = ops->list(maintenance->store, &filter, on_unrouted, maintenance->writing, err);
    maintenance->writing->report.by_topic = !code;
    return code;
}

static ob_code purge(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    int64_t removed = 0;
    ob_code code = maintenance->store->ops->purge(maintenance->store, &removed, err);
    maintenance->writing->report.purged += removed;
    if (!code && removed > 0)
        ob_log(&maintenance->terms.log, OB_LOG_INFO, "retention: old messages removed",
               OB_STR("store", maintenance->name), OB_INT("messages", removed));
    return code;
}

/* What goes wrong here must not keep the relay from its other work: it comes again. */
static void tell_operators(struct ob_maintenance *maintenance)
{
    struct outbox_error err = {0};
    int64_t told = 0;
    if (ob_notify_round(maintenance->store, &maintenance->terms.notify, maintenance->name, &told, &err))
        ob_log(&maintenance->terms.log, OB_LOG_WARN, "notify: no message made", OB_STR("store", maintenance->name),
               OB_STR("error", err.text));
    else if (told)
        ob_log(&maintenance->terms.log, OB_LOG_INFO, "notify: operators are told of dead letters",
               OB_STR("store", maintenance->name), OB_INT("dead", told));
}

static int64_t notify_every(const struct ob_maintenance *maintenance)
{
    const struct ob_notify *notify = &maintenance->terms.notify;
    if (!notify->on || !maintenance->leads)
        return 0;
    return notify->terms.every_us < NOTIFY_US ? notify->terms.every_us : NOTIFY_US;
}

static ob_code run_hooks(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    int64_t taken = 0;
    const struct ob_store_ops *ops = maintenance->store->ops;
    return ops->run_hooks ? ops->run_hooks(maintenance->store, &taken, err) : OUTBOX_OK;
}

static ob_code open_store(struct ob_maintenance *maintenance, struct outbox_error *err)
{
    struct ob_open options = {
        .schema = maintenance->schema, .application = "outbox maintenance", .log = &maintenance->terms.log};
    return ob_store_open(maintenance->url, &options, &maintenance->store, err);
}

/* Whether it is due; if so, sets the next time. */
static bool due(int64_t *at, int64_t every_us, int64_t now)
{
    if (every_us <= 0 || now < *at)
        return false;
    *at = now + every_us;
    return true;
}

static void round_of(struct ob_maintenance *maintenance, struct wish wish)
{
    int64_t now = ob_clock_boot_us();
    struct outbox_error err = {0};
    ob_code code = OUTBOX_OK;
    if (!maintenance->store) {
        if (now < maintenance->open_at)
            return;
        code = open_store(maintenance, &err);
    }
    if (!code && due(&maintenance->beat_at, BEAT_US, now))
        code = beat(maintenance, maintenance->terms.state, &err);
    bool control = !code && (wish.hurry || due(&maintenance->control_at, maintenance->terms.control_every_us, now));
    if (!code && control)
        code = look(maintenance, &err);
    if (!code && control && maintenance->leads)
        code = run_hooks(maintenance, &err);
    if (!code && wish.topics)
        code = count_topics(maintenance, wish.headers, &err);
    if (!code && ((wish.hurry && !wish.topics) || (maintenance->leads && due(&maintenance->count_at, COUNT_US, now))))
        code = count(maintenance, &err);
    if (!code && due(&maintenance->notify_at, notify_every(maintenance), now))
        tell_operators(maintenance);
    if (!code && due(&maintenance->history_at, HISTORY_US, now))
        code = record_history(maintenance, &err);
    if (!code && maintenance->leads && due(&maintenance->purge_at, maintenance->terms.purge_every_us, now))
        code = purge(maintenance, &err);
    maintenance->writing->report.reached = !code;
    if (code)
        give_up_connection(maintenance, &err, now);
    else
        maintenance->backoff_us = 0;
    book_publish(maintenance);
}

static int64_t earlier(int64_t a, int64_t b, int64_t every)
{
    return every > 0 && b < a ? b : a;
}

static int64_t next_at(const struct ob_maintenance *maintenance)
{
    if (!maintenance->store)
        return maintenance->open_at;
    int64_t at = earlier(maintenance->beat_at, maintenance->history_at, HISTORY_US);
    at = earlier(at, maintenance->notify_at, notify_every(maintenance));
    at = earlier(at, maintenance->control_at, maintenance->terms.control_every_us);
    at = earlier(at, maintenance->purge_at, maintenance->leads ? maintenance->terms.purge_every_us : 0);
    return earlier(at, maintenance->count_at, maintenance->leads);
}

/* Waits for the next round. True when the thread must end. */
static bool rest(struct ob_maintenance *maintenance, struct wish *wish)
{
    pthread_mutex_lock(&maintenance->lock);
    while (!maintenance->stop && !maintenance->hurry && !maintenance->next_info) {
        int64_t wait = next_at(maintenance) - ob_clock_boot_us();
        if (wait <= 0)
            break;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + wait % 1000000 * 1000;
        until.tv_sec += wait / 1000000 + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&maintenance->wake, &maintenance->lock, &until);
    }
    bool stop = maintenance->stop;
    *wish = (struct wish){maintenance->hurry, maintenance->topics, maintenance->headers};
    maintenance->terms = maintenance->next;
    maintenance->hurry = maintenance->topics = maintenance->headers = false;
    if (maintenance->next_info) {
        ob_free(maintenance->info);
        maintenance->info = maintenance->next_info;
        maintenance->next_info = NULL;
        maintenance->beat_at = 0;
    }
    pthread_mutex_unlock(&maintenance->lock);
    return stop;
}

static bool is_silent(struct ob_maintenance *maintenance)
{
    pthread_mutex_lock(&maintenance->lock);
    bool silent = maintenance->silent;
    pthread_mutex_unlock(&maintenance->lock);
    return silent;
}

static void maintenance_free(struct ob_maintenance *maintenance);

static void *run(void *ctx)
{
    struct ob_maintenance *maintenance = ctx;
    struct wish wish = {0};
    do
        round_of(maintenance, wish);
    while (!rest(maintenance, &wish));
    if (maintenance->store) {
        struct outbox_error err;
        ob_code ignored = is_silent(maintenance) ? OUTBOX_OK : record_history(maintenance, &err);
        ignored = ignored || is_silent(maintenance) ? OUTBOX_OK : beat(maintenance, "stopped", &err);
        (void)ignored; /* on failure the age of its heartbeat shows it */
        maintenance->store->ops->close(maintenance->store);
    }
    pthread_mutex_lock(&maintenance->lock);
    bool left = maintenance->left;
    maintenance->ended = true;
    pthread_cond_signal(&maintenance->over);
    pthread_mutex_unlock(&maintenance->lock);
    if (left)
        maintenance_free(maintenance);
    return NULL;
}

/* ---- life ---- */

static void maintenance_free(struct ob_maintenance *maintenance)
{
    for (int i = 0; i < 4; i++)
        ob_arena_fini(&maintenance->books[i].arena);
    pthread_cond_destroy(&maintenance->over);
    pthread_cond_destroy(&maintenance->wake);
    pthread_mutex_destroy(&maintenance->lock);
    ob_free(maintenance->url);
    ob_free(maintenance->schema);
    ob_free(maintenance->name);
    ob_free(maintenance->worker);
    ob_free(maintenance->info);
    ob_free(maintenance->next_info);
    ob_free(maintenance);
}

static void init_sync(struct ob_maintenance *maintenance)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&maintenance->lock, NULL);
    pthread_cond_init(&maintenance->wake, &attr);
    pthread_cond_init(&maintenance->over, &attr);
    pthread_condattr_destroy(&attr);
}

static struct terms terms_of(const struct ob_maintenance_settings *settings)
{
    struct terms terms = {.state = settings->state,
                          .control_every_us = settings->config->control_every_us,
                          .purge_every_us = settings->config->purge_every_us,
                          .log = settings->log ? *settings->log : (struct ob_log){.level = OB_LOG_OFF}};
    ob_notify_init(&terms.notify, settings->config);
    return terms;
}

static bool copy_settings(struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings)
{
    const struct ob_config_store *store = settings->store;
    maintenance->url = ob_strdup(store->url);
    maintenance->schema = store->schema ? ob_strdup(store->schema) : NULL;
    maintenance->name = ob_strdup(store->name);
    maintenance->worker = ob_strdup(settings->worker);
    maintenance->terms = maintenance->next = terms_of(settings);
    maintenance->info = ob_strdup(settings->info);
    maintenance->loop = settings->wake;
    maintenance->done = maintenance->recorded = settings->done;
    return maintenance->url && (maintenance->schema || !store->schema) && maintenance->name && maintenance->worker &&
           maintenance->info;
}

enum outbox_code ob_maintenance_start(const struct ob_maintenance_settings *settings, struct ob_maintenance **out,
                                      struct outbox_error *err)
{
    struct ob_maintenance *maintenance = ob_calloc(1, sizeof *maintenance);
    *out = NULL;
    if (!maintenance)
        return ob_error_nomem(err);
    for (int i = 0; i < 4; i++)
        ob_arena_init(&maintenance->books[i].arena, 0);
    maintenance->writing = &maintenance->books[0];
    maintenance->ready = &maintenance->books[1];
    maintenance->reading = &maintenance->books[2];
    maintenance->control = &maintenance->books[3];
    init_sync(maintenance);
    bool copied = copy_settings(maintenance, settings);
    int failed = copied ? pthread_create(&maintenance->thread, NULL, run, maintenance) : 0;
    if (!copied || failed) {
        maintenance_free(maintenance);
        return copied ? ob_error_set(err, OUTBOX_INTERNAL, "cannot start a thread: %s", strerror(failed))
                      : ob_error_nomem(err);
    }
    *out = maintenance;
    return OUTBOX_OK;
}

void ob_maintenance_dismiss(struct ob_maintenance *maintenance)
{
    if (!maintenance || maintenance->stop_us)
        return;
    maintenance->stop_us = ob_clock_mono_us();
    pthread_mutex_lock(&maintenance->lock);
    maintenance->stop = true;
    pthread_cond_signal(&maintenance->wake);
    pthread_mutex_unlock(&maintenance->lock);
}

void ob_maintenance_stop(struct ob_maintenance *maintenance)
{
    if (!maintenance)
        return;
    ob_maintenance_dismiss(maintenance);
    int64_t until_us = maintenance->stop_us + PATIENCE_US;
    struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    pthread_mutex_lock(&maintenance->lock);
    while (!maintenance->ended && pthread_cond_timedwait(&maintenance->over, &maintenance->lock, &until) != ETIMEDOUT)
        ;
    bool left = maintenance->left = maintenance->silent = !maintenance->ended;
    if (left) {
        ob_log(&maintenance->terms.log, OB_LOG_WARN, "store unavailable: this relay could not sign off",
               OB_STR("store", maintenance->name));
        pthread_detach(maintenance->thread);
    }
    pthread_mutex_unlock(&maintenance->lock);
    if (left)
        return;
    pthread_join(maintenance->thread, NULL);
    maintenance_free(maintenance);
}

void ob_maintenance_leave(struct ob_maintenance *maintenance, bool says)
{
    if (!maintenance)
        return;
    pthread_t thread = maintenance->thread;
    pthread_mutex_lock(&maintenance->lock);
    bool ended = maintenance->ended;
    maintenance->left = !ended;
    maintenance->silent = !says;
    maintenance->stop = true;
    pthread_cond_signal(&maintenance->wake);
    pthread_mutex_unlock(&maintenance->lock);
    if (!ended) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    maintenance_free(maintenance);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool ob_maintenance_serves(const struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings)
{
    const struct ob_config_store *store = settings->store;
    return same_text(maintenance->url, store->url) && same_text(maintenance->schema, store->schema) &&
           same_text(maintenance->name, store->name) && same_text(maintenance->worker, settings->worker);
}

void ob_maintenance_move(struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings)
{
    pthread_mutex_lock(&maintenance->lock);
    maintenance->next = terms_of(settings);
    maintenance->loop = settings->wake;
    maintenance->hurry = true;
    if (maintenance->fresh)
        uv_async_send(maintenance->loop);
    pthread_cond_signal(&maintenance->wake);
    pthread_mutex_unlock(&maintenance->lock);
}

void ob_maintenance_tell(struct ob_maintenance *maintenance, char *info)
{
    pthread_mutex_lock(&maintenance->lock);
    ob_free(maintenance->next_info);
    maintenance->next_info = info;
    pthread_cond_signal(&maintenance->wake);
    pthread_mutex_unlock(&maintenance->lock);
}

void ob_maintenance_done(struct ob_maintenance *maintenance, const struct ob_figures *done)
{
    pthread_mutex_lock(&maintenance->lock);
    maintenance->done = *done;
    pthread_mutex_unlock(&maintenance->lock);
}

void ob_maintenance_hurry(struct ob_maintenance *maintenance, bool unrouted)
{
    pthread_mutex_lock(&maintenance->lock);
    maintenance->hurry = maintenance->topics = true;
    maintenance->headers = maintenance->headers || unrouted;
    pthread_cond_signal(&maintenance->wake);
    pthread_mutex_unlock(&maintenance->lock);
}

const struct ob_maintenance_report *ob_maintenance_report(struct ob_maintenance *maintenance)
{
    pthread_mutex_lock(&maintenance->lock);
    bool fresh = maintenance->fresh;
    if (fresh) {
        struct notebook *read = maintenance->reading;
        if (read->report.controlled) {
            read = maintenance->control;
            maintenance->control = maintenance->reading;
        }
        maintenance->reading = maintenance->ready;
        maintenance->ready = read;
        maintenance->fresh = false;
    }
    pthread_mutex_unlock(&maintenance->lock);
    return fresh ? &maintenance->reading->report : NULL;
}

const struct ob_maintenance_report *ob_maintenance_control(const struct ob_maintenance *maintenance)
{
    const struct ob_maintenance_report *report = &maintenance->reading->report;
    report = report->controlled ? report : &maintenance->control->report;
    return report->controlled ? report : NULL;
}
