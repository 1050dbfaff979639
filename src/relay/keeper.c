/* keeper.c - see keeper.h.
 *
 * The thread fills a notebook of its own and swaps it with the one that the loop reads, under a lock that is held for the
 * swap only.
 *
 * A call may never come back: somebody holds a lock in the database, or its server stands still. Whoever stops the keeper
 * does not wait for that. The thread is left behind then, and ends by itself some day: so it owns all that it uses, and
 * touches nothing of the host's once `stop` is set. Left behind, it says nothing more to the store: another may live under
 * its name by now. */
#include "relay/keeper.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "lib/open.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_US = 10000000, COUNT_US = 15000000, BACKOFF_US = 500000, BACKOFF_CAP_US = 5000000, PATIENCE_US = 2000000 };
enum { LIST_MAX = 1 << 17, LANES_MAX = 50000 };

/* A list in an arena that grows by doubling; what it grew out of stays in the arena until it is emptied. */
struct list {
    void *items;
    size_t count, room;
};

struct notebook {
    struct ob_keeper_news news;
    struct ob_arena arena;
    struct list lanes, paused, tunings, gauges;
    bool failed; /* no memory: half of a list is no list */
};

struct ob_keeper {
    char *url, *schema, *name, *worker; /* of the store, and of this relay */
    char *info;                         /* what the beats tell of this relay; the thread's */
    char *next_info;                    /* under the lock: it replaces info; NULL: it stays */
    struct terms {
        const char *state;
        int64_t control_every_us, purge_every_us;
        struct ob_log log;
    } terms, next;    /* next: under the lock, the thread's from its next round on */
    uv_async_t *loop; /* the host's: not after stop */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, over;
    bool stop, hurry, fresh;  /* under the lock, as the next three */
    int64_t stop_us;          /* when stop was asked for */
    bool ended;               /* the thread is through */
    bool left;                /* nobody waits for it: it cleans up after itself */
    bool silent;              /* another may live under its name: it does not say that it ends */
    struct notebook books[4]; /* written by the thread; ready; read by the loop; the loop's last that held wishes */
    struct notebook *writing, *ready, *reading, *wishes;
    struct ob_store *store; /* the thread's, from here on */
    int64_t backoff_us;
    int64_t control_at, beat_at, count_at, purge_at, open_at;
    bool leads;
    bool looked; /* once: it can be used, whatever comes later */
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

static void on_paused(void *ctx, const char *name_space, const char *topic, const char *destination)
{
    struct notebook *book = ctx;
    (void)name_space; /* claims heed these by themselves */
    (void)topic;
    book->news.pause_count++;
    const char **name = destination ? add(book, &book->paused, sizeof *name) : NULL;
    if (name)
        *name = keep(book, destination);
}

static void on_tuned(void *ctx, const char *name, const char *value)
{
    struct notebook *book = ctx;
    struct ob_tuning tuning, *kept;
    /* A name of a newer version means nothing here. */
    if (ob_tuning_parse(name, value, &tuning, NULL) == OUTBOX_OK && (kept = add(book, &book->tunings, sizeof *kept)))
        *kept = tuning;
}

static void on_lane(void *ctx, const char *name_space, const char *topic)
{
    struct notebook *book = ctx;
    if (book->lanes.count == LANES_MAX)
        return; /* the list spares claims; a lane that is not in it is claimed like any other */
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

static void book_empty(struct notebook *book)
{
    ob_arena_fini(&book->arena);
    *book = (struct notebook){0};
    ob_arena_init(&book->arena, 0);
}

static void book_publish(struct ob_keeper *keeper)
{
    struct notebook *book = keeper->writing;
    struct ob_keeper_news *news = &book->news;
    news->lanes = book->lanes.items;
    news->lane_count = book->lanes.count;
    news->paused = book->paused.items;
    news->paused_count = book->paused.count;
    news->tunings = book->tunings.items;
    news->tuning_count = book->tunings.count;
    news->gauges = book->gauges.items;
    news->gauges_count = book->gauges.count;
    news->leads = keeper->leads;
    if (book->failed)
        news->controlled = news->counted = false;
    pthread_mutex_lock(&keeper->lock);
    if (keeper->fresh) /* the loop has not seen the last one: what it removed must not be forgotten */
        news->purged += keeper->ready->news.purged;
    keeper->writing = keeper->ready;
    keeper->ready = book;
    keeper->fresh = true;
    if (!keeper->stop)
        uv_async_send(keeper->loop);
    pthread_mutex_unlock(&keeper->lock);
    book_empty(keeper->writing);
}

/* ---- the round ---- */

static void tell_trouble(struct ob_keeper *keeper, const struct outbox_error *err)
{
    if (keeper->backoff_us == 0) /* the first of a row */
        ob_log(&keeper->terms.log, keeper->looked ? OB_LOG_WARN : OB_LOG_ERROR,
               keeper->looked ? "the store cannot be looked after; trying again"
                              : "the store cannot be used: nothing is delivered until it can; trying again",
               OB_STR("store", keeper->name), OB_STR("code", outbox_code_name(err->code)), OB_STR("error", err->text));
}

static void give_up_connection(struct ob_keeper *keeper, const struct outbox_error *err, int64_t now)
{
    tell_trouble(keeper, err);
    keeper->writing->news.err = *err;
    if (keeper->store)
        keeper->store->ops->close(keeper->store);
    keeper->store = NULL;
    keeper->leads = false;
    keeper->backoff_us = keeper->backoff_us ? keeper->backoff_us * 2 : BACKOFF_US;
    if (keeper->backoff_us > BACKOFF_CAP_US)
        keeper->backoff_us = BACKOFF_CAP_US;
    keeper->open_at = now + keeper->backoff_us;
}

static ob_code beat(struct ob_keeper *keeper, const char *state, struct outbox_error *err)
{
    char host[80] = "";
    gethostname(host, sizeof host - 1);
    struct ob_beat sign = {.worker = keeper->worker,
                           .host = host,
                           .version = outbox_version(),
                           .state = state,
                           .info = keeper->info,
                           .pid = (int)getpid(),
                           .every_us = BEAT_US};
    return keeper->store->ops->beat(keeper->store, &sign, &keeper->leads, err);
}

static ob_code look(struct ob_keeper *keeper, struct outbox_error *err)
{
    struct notebook *book = keeper->writing;
    struct ob_control control = {.ctx = book, .paused = on_paused, .tuned = on_tuned, .lane = on_lane};
    ob_code code = keeper->store->ops->control(keeper->store, &control, err);
    book->news.controlled = !code;
    keeper->looked = keeper->looked || !code;
    return code;
}

static ob_code count(struct ob_keeper *keeper, struct outbox_error *err)
{
    ob_code code = keeper->store->ops->gauges(keeper->store, on_gauges, keeper->writing, err);
    keeper->writing->news.counted = !code;
    return code;
}

static ob_code purge(struct ob_keeper *keeper, struct outbox_error *err)
{
    int64_t removed = 0;
    ob_code code = keeper->store->ops->purge(keeper->store, &removed, err);
    keeper->writing->news.purged += removed;
    if (!code && removed > 0)
        ob_log(&keeper->terms.log, OB_LOG_INFO, "retention removed old messages", OB_STR("store", keeper->name),
               OB_INT("messages", removed));
    return code;
}

static ob_code run_hooks(struct ob_keeper *keeper, struct outbox_error *err)
{
    int64_t taken = 0;
    const struct ob_store_ops *ops = keeper->store->ops;
    return ops->run_hooks ? ops->run_hooks(keeper->store, &taken, err) : OUTBOX_OK;
}

static ob_code open_store(struct ob_keeper *keeper, struct outbox_error *err)
{
    struct ob_open options = {.schema = keeper->schema, .application = "outbox keeper", .log = &keeper->terms.log};
    return ob_store_open(keeper->url, &options, &keeper->store, err);
}

/* Whether it is time, and when it is next. */
static bool due(int64_t *at, int64_t every_us, int64_t now)
{
    if (every_us <= 0 || now < *at)
        return false;
    *at = now + every_us;
    return true;
}

static void round_of(struct ob_keeper *keeper, bool hurry)
{
    int64_t now = ob_clock_boot_us();
    struct outbox_error err = {0};
    ob_code code = OUTBOX_OK;
    if (!keeper->store) {
        if (now < keeper->open_at)
            return;
        code = open_store(keeper, &err);
    }
    if (!code && due(&keeper->beat_at, BEAT_US, now))
        code = beat(keeper, keeper->terms.state, &err);
    bool control = !code && (hurry || due(&keeper->control_at, keeper->terms.control_every_us, now));
    if (!code && control)
        code = look(keeper, &err);
    if (!code && control && keeper->leads)
        code = run_hooks(keeper, &err);
    if (!code && (hurry || (keeper->leads && due(&keeper->count_at, COUNT_US, now))))
        code = count(keeper, &err);
    if (!code && keeper->leads && due(&keeper->purge_at, keeper->terms.purge_every_us, now))
        code = purge(keeper, &err);
    keeper->writing->news.reached = !code;
    if (code)
        give_up_connection(keeper, &err, now);
    else
        keeper->backoff_us = 0;
    book_publish(keeper);
}

static int64_t earlier(int64_t a, int64_t b, int64_t every)
{
    return every > 0 && b < a ? b : a;
}

static int64_t next_at(const struct ob_keeper *keeper)
{
    if (!keeper->store)
        return keeper->open_at;
    int64_t at = keeper->beat_at;
    at = earlier(at, keeper->control_at, keeper->terms.control_every_us);
    at = earlier(at, keeper->purge_at, keeper->leads ? keeper->terms.purge_every_us : 0);
    return earlier(at, keeper->count_at, keeper->leads);
}

/* True when it is time to end. */
static bool rest(struct ob_keeper *keeper, bool *hurry)
{
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stop && !keeper->hurry) {
        int64_t wait = next_at(keeper) - ob_clock_boot_us();
        if (wait <= 0)
            break;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + wait % 1000000 * 1000;
        until.tv_sec += wait / 1000000 + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until);
    }
    bool stop = keeper->stop;
    *hurry = keeper->hurry;
    keeper->terms = keeper->next;
    keeper->hurry = false;
    if (keeper->next_info) {
        ob_free(keeper->info);
        keeper->info = keeper->next_info;
        keeper->next_info = NULL;
        keeper->beat_at = 0;
    }
    pthread_mutex_unlock(&keeper->lock);
    return stop;
}

static bool is_silent(struct ob_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool silent = keeper->silent;
    pthread_mutex_unlock(&keeper->lock);
    return silent;
}

static void keeper_free(struct ob_keeper *keeper);

static void *run(void *ctx)
{
    struct ob_keeper *keeper = ctx;
    bool hurry = false;
    do
        round_of(keeper, hurry);
    while (!rest(keeper, &hurry));
    if (keeper->store) {
        struct outbox_error err;
        ob_code ignored = is_silent(keeper) ? OUTBOX_OK : beat(keeper, "stopped", &err);
        (void)ignored; /* its row shows its age all the same */
        keeper->store->ops->close(keeper->store);
    }
    pthread_mutex_lock(&keeper->lock);
    bool left = keeper->left;
    keeper->ended = true;
    pthread_cond_signal(&keeper->over);
    pthread_mutex_unlock(&keeper->lock);
    if (left)
        keeper_free(keeper);
    return NULL;
}

/* ---- life ---- */

static void keeper_free(struct ob_keeper *keeper)
{
    for (int i = 0; i < 4; i++)
        ob_arena_fini(&keeper->books[i].arena);
    pthread_cond_destroy(&keeper->over);
    pthread_cond_destroy(&keeper->wake);
    pthread_mutex_destroy(&keeper->lock);
    ob_free(keeper->url);
    ob_free(keeper->schema);
    ob_free(keeper->name);
    ob_free(keeper->worker);
    ob_free(keeper->info);
    ob_free(keeper->next_info);
    ob_free(keeper);
}

static void init_sync(struct ob_keeper *keeper)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_cond_init(&keeper->wake, &attr);
    pthread_cond_init(&keeper->over, &attr);
    pthread_condattr_destroy(&attr);
}

static struct terms terms_of(const struct ob_keeper_settings *settings)
{
    return (struct terms){.state = settings->state,
                          .control_every_us = settings->config->control_every_us,
                          .purge_every_us = settings->config->purge_every_us,
                          .log = settings->log ? *settings->log : (struct ob_log){.level = OB_LOG_OFF}};
}

/* {"sinks": ["billing"]}: whoever names a sink to an operator's command learns whether there is one. NULL without memory. */
static char *info_of(const struct ob_config *config)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "sinks");
    ob_json_array(&json);
    for (size_t i = 0; i < config->sink_count; i++)
        ob_json_string(&json, config->sinks[i].name);
    ob_json_end(&json);
    ob_json_end(&json);
    char *text = ob_buf_ok(&buf) ? ob_strdup(ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    return text;
}

static bool copy_settings(struct ob_keeper *keeper, const struct ob_keeper_settings *settings)
{
    const struct ob_config_store *store = settings->store;
    keeper->url = ob_strdup(store->url);
    keeper->schema = store->schema ? ob_strdup(store->schema) : NULL;
    keeper->name = ob_strdup(store->name);
    keeper->worker = ob_strdup(settings->worker);
    keeper->terms = keeper->next = terms_of(settings);
    keeper->info = info_of(settings->config);
    keeper->loop = settings->wake;
    return keeper->url && (keeper->schema || !store->schema) && keeper->name && keeper->worker && keeper->info;
}

enum outbox_code ob_keeper_start(const struct ob_keeper_settings *settings, struct ob_keeper **out,
                                 struct outbox_error *err)
{
    struct ob_keeper *keeper = ob_calloc(1, sizeof *keeper);
    *out = NULL;
    if (!keeper)
        return ob_error_nomem(err);
    for (int i = 0; i < 4; i++)
        ob_arena_init(&keeper->books[i].arena, 0);
    keeper->writing = &keeper->books[0];
    keeper->ready = &keeper->books[1];
    keeper->reading = &keeper->books[2];
    keeper->wishes = &keeper->books[3];
    init_sync(keeper);
    bool copied = copy_settings(keeper, settings);
    int failed = copied ? pthread_create(&keeper->thread, NULL, run, keeper) : 0;
    if (!copied || failed) {
        keeper_free(keeper);
        return copied ? ob_error_set(err, OUTBOX_INTERNAL, "cannot start a thread: %s", strerror(failed))
                      : ob_error_nomem(err);
    }
    *out = keeper;
    return OUTBOX_OK;
}

static void ask(struct ob_keeper *keeper, bool *flag)
{
    pthread_mutex_lock(&keeper->lock);
    *flag = true;
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
}

void ob_keeper_dismiss(struct ob_keeper *keeper)
{
    if (!keeper || keeper->stop_us)
        return;
    keeper->stop_us = ob_clock_mono_us();
    ask(keeper, &keeper->stop);
}

void ob_keeper_stop(struct ob_keeper *keeper)
{
    if (!keeper)
        return;
    ob_keeper_dismiss(keeper);
    int64_t until_us = keeper->stop_us + PATIENCE_US;
    struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->ended && pthread_cond_timedwait(&keeper->over, &keeper->lock, &until) != ETIMEDOUT)
        ;
    bool left = keeper->left = keeper->silent = !keeper->ended;
    if (left) {
        ob_log(&keeper->terms.log, OB_LOG_WARN, "the store does not answer: it was not told that this relay goes",
               OB_STR("store", keeper->name));
        pthread_detach(keeper->thread);
    }
    pthread_mutex_unlock(&keeper->lock);
    if (left)
        return;
    pthread_join(keeper->thread, NULL);
    keeper_free(keeper);
}

void ob_keeper_leave(struct ob_keeper *keeper, bool says)
{
    if (!keeper)
        return;
    pthread_t thread = keeper->thread;
    pthread_mutex_lock(&keeper->lock);
    bool ended = keeper->ended;
    keeper->left = !ended;
    keeper->silent = !says;
    keeper->stop = true;
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
    if (!ended) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    keeper_free(keeper);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool ob_keeper_serves(const struct ob_keeper *keeper, const struct ob_keeper_settings *settings)
{
    const struct ob_config_store *store = settings->store;
    return same_text(keeper->url, store->url) && same_text(keeper->schema, store->schema) &&
           same_text(keeper->name, store->name) && same_text(keeper->worker, settings->worker);
}

void ob_keeper_move(struct ob_keeper *keeper, const struct ob_keeper_settings *settings)
{
    char *info = info_of(settings->config);
    pthread_mutex_lock(&keeper->lock);
    keeper->next = terms_of(settings);
    ob_free(keeper->next_info);
    keeper->next_info = info; /* without memory the old one stays */
    keeper->loop = settings->wake;
    keeper->hurry = true;
    if (keeper->fresh)
        uv_async_send(keeper->loop);
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
}

void ob_keeper_hurry(struct ob_keeper *keeper)
{
    ask(keeper, &keeper->hurry);
}

const struct ob_keeper_news *ob_keeper_news(struct ob_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool fresh = keeper->fresh;
    if (fresh) {
        struct notebook *read = keeper->reading;
        if (read->news.controlled) {
            read = keeper->wishes;
            keeper->wishes = keeper->reading;
        }
        keeper->reading = keeper->ready;
        keeper->ready = read;
        keeper->fresh = false;
    }
    pthread_mutex_unlock(&keeper->lock);
    return fresh ? &keeper->reading->news : NULL;
}

const struct ob_keeper_news *ob_keeper_wishes(const struct ob_keeper *keeper)
{
    const struct ob_keeper_news *news = &keeper->reading->news;
    news = news->controlled ? news : &keeper->wishes->news;
    return news->controlled ? news : NULL;
}
