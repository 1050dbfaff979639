/* api_thread.c - the threads of the API: a bounded queue before them, a finished list behind them, and each with its own stores.
 *
 * The stores are opened when a request needs them, and again after the configuration changed. */
#include "daemon/api.h"
#include "daemon/api_job.h"

#include "base/alloc.h"
#include "base/error.h"
#include "lib/open.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* The stores of a configuration: shared by the threads, freed by the last one that uses it. */
struct stores {
    struct ob_arena arena;
    struct ob_config_store *items;
    size_t count;
    size_t users; /* under the mutex */
};

struct worker {
    struct ob_api *api;
    pthread_t thread;
    bool started;
    struct stores *stores; /* those that `open` belongs to */
    struct ob_store **open;
};

struct ob_api {
    struct ob_api_options set;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct ob_list waiting, finished;
    size_t waiting_count;
    bool stop;
    struct stores *stores;
    struct worker workers[OB_API_THREADS];
    struct ob_jobs *jobs;
};

/* ---- stores ------------------------------------------------------------------------------------------------------ */

static bool copy_store(struct ob_arena *arena, struct ob_config_store *to, const struct ob_config_store *from)
{
    *to = *from;
    to->name = ob_arena_strdup(arena, from->name);
    to->url = ob_arena_strdup(arena, from->url);
    to->schema = from->schema ? ob_arena_strdup(arena, from->schema) : NULL;
    return to->name && to->url && (to->schema || !from->schema);
}

static void stores_free(struct stores *stores)
{
    if (!stores)
        return;
    ob_arena_fini(&stores->arena);
    ob_free(stores);
}

static struct stores *stores_new(const struct ob_config *config)
{
    struct stores *stores = ob_calloc(1, sizeof *stores);
    if (!stores)
        return NULL;
    ob_arena_init(&stores->arena, 0);
    stores->items = ob_arena_calloc(&stores->arena, config->store_count + 1, sizeof *stores->items);
    bool ok = stores->items != NULL;
    for (; ok && stores->count < config->store_count; stores->count++)
        ok = copy_store(&stores->arena, &stores->items[stores->count], &config->stores[stores->count]);
    stores->users = 1;
    if (ok)
        return stores;
    stores_free(stores);
    return NULL;
}

static void stores_release(struct ob_api *api, struct stores *stores)
{
    if (!stores)
        return;
    pthread_mutex_lock(&api->mutex);
    bool last = --stores->users == 0;
    pthread_mutex_unlock(&api->mutex);
    if (last)
        stores_free(stores);
}

ob_code ob_api_reload(struct ob_api *api, const struct ob_config *config, struct outbox_error *err)
{
    struct stores *next = stores_new(config), *before;
    if (!next)
        return ob_error_nomem(err);
    pthread_mutex_lock(&api->mutex);
    before = api->stores;
    api->stores = next;
    pthread_mutex_unlock(&api->mutex);
    stores_release(api, before);
    return OUTBOX_OK;
}

static void close_stores(struct worker *worker)
{
    for (size_t i = 0; worker->stores && worker->open && i < worker->stores->count; i++)
        if (worker->open[i])
            worker->open[i]->ops->close(worker->open[i]);
    ob_free(worker->open);
    worker->open = NULL;
    stores_release(worker->api, worker->stores);
    worker->stores = NULL;
}

/* Takes the stores of the newest configuration. */
static bool renew_stores(struct worker *worker)
{
    struct ob_api *api = worker->api;
    pthread_mutex_lock(&api->mutex);
    struct stores *newest = api->stores;
    bool same = worker->stores == newest;
    if (!same)
        newest->users++;
    pthread_mutex_unlock(&api->mutex);
    if (same)
        return worker->open != NULL;
    close_stores(worker);
    worker->stores = newest;
    worker->open = ob_calloc(newest->count + 1, sizeof *worker->open);
    return worker->open != NULL;
}

/* False after it wrote the problem. */
static bool find_store(struct worker *worker, struct ob_api_request *request)
{
    const char *name = ob_api_parameter(request, "store");
    struct outbox_error err = {0};
    size_t i = 0;
    if (!renew_stores(worker)) {
        ob_api_problem(request, 503, "NOMEM", "out of memory", "try again");
        return false;
    }
    while (name && i < worker->stores->count && strcmp(worker->stores->items[i].name, name) != 0)
        i++;
    if (i == worker->stores->count) {
        ob_api_problem(request, 404, "UNKNOWN_NAME", "the relay has no store of this name",
                       "GET /api/v1/me lists the stores");
        return false;
    }
    const struct ob_config_store *store = &worker->stores->items[i];
    struct ob_open open = {.schema = store->schema, .application = "outbox api", .log = worker->api->set.log};
    if (!worker->open[i] && ob_store_open(store->url, &open, &worker->open[i], &err)) {
        ob_log(worker->api->set.log, OB_LOG_WARN, "api: cannot open the store", OB_STR("store", store->name),
               OB_STR("error", err.text));
        /* The text may name hosts and users, and nobody has shown a token yet. */
        ob_api_problem(request, 503, outbox_code_name(err.code), "the relay cannot open its store at the moment",
                       "see the relay's log and /ready");
        return false;
    }
    request->store = worker->open[i];
    request->store_name = store->name;
    request->store_url = store->url;
    request->store_schema = store->schema;
    return true;
}

void ob_api_put_stores(const struct ob_api_request *request, struct ob_json *json)
{
    struct ob_api *api = request->api;
    ob_json_array(json);
    pthread_mutex_lock(&api->mutex);
    for (size_t i = 0; i < api->stores->count; i++)
        ob_json_string(json, api->stores->items[i].name);
    pthread_mutex_unlock(&api->mutex);
    ob_json_end(json);
}

bool ob_api_is_open(const struct ob_api *api)
{
    return api->set.open;
}

struct ob_jobs *ob_api_jobs(struct ob_api *api)
{
    return api->jobs;
}

/* ---- the threads ------------------------------------------------------------------------------------------------- */

static void answer(struct worker *worker, struct ob_api_request *request)
{
    if (!find_store(worker, request))
        return;
    ob_api_run(request, worker->api->set.open);
    if (request->status >= 500)
        ob_log(worker->api->set.log, OB_LOG_WARN, "api request failed", OB_STR("method", request->route->method),
               OB_STR("path", request->route->path), OB_STR("problem", ob_buf_text(&request->answer)));
}

static void *run(void *ctx)
{
    struct worker *worker = ctx;
    struct ob_api *api = worker->api;
    for (;;) {
        struct ob_api_request *request = NULL;
        pthread_mutex_lock(&api->mutex);
        while (ob_list_empty(&api->waiting) && !api->stop)
            pthread_cond_wait(&api->work, &api->mutex);
        if (!api->stop) {
            request = OB_CONTAINER(api->waiting.next, struct ob_api_request, node);
            ob_list_remove(&request->node);
            api->waiting_count--;
        }
        pthread_mutex_unlock(&api->mutex);
        if (!request)
            break;
        answer(worker, request);
        pthread_mutex_lock(&api->mutex);
        ob_list_push(&api->finished, &request->node);
        pthread_mutex_unlock(&api->mutex);
        api->set.finished(api->set.ctx);
    }
    close_stores(worker);
    return NULL;
}

bool ob_api_submit(struct ob_api *api, struct ob_api_request *request)
{
    request->api = api;
    pthread_mutex_lock(&api->mutex);
    bool room = api->waiting_count < OB_API_WAITING && !api->stop;
    if (room) {
        ob_list_push(&api->waiting, &request->node);
        api->waiting_count++;
        pthread_cond_signal(&api->work);
    }
    pthread_mutex_unlock(&api->mutex);
    if (!room)
        ob_api_problem(request, 503, "BUSY", "too many requests wait", "try again in a second");
    return room;
}

struct ob_api_request *ob_api_finished(struct ob_api *api)
{
    struct ob_api_request *request = NULL;
    pthread_mutex_lock(&api->mutex);
    if (!ob_list_empty(&api->finished)) {
        request = OB_CONTAINER(api->finished.next, struct ob_api_request, node);
        ob_list_remove(&request->node);
    }
    pthread_mutex_unlock(&api->mutex);
    return request;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Signals are blocked in these threads: the loop's thread must receive them. */
static bool start_threads(struct ob_api *api)
{
    sigset_t all, before;
    bool ok = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; ok && i < OB_API_THREADS; i++) {
        api->workers[i].api = api;
        ok = pthread_create(&api->workers[i].thread, NULL, run, &api->workers[i]) == 0;
        api->workers[i].started = ok;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

ob_code ob_api_start(const struct ob_api_options *options, struct ob_api **out, struct outbox_error *err)
{
    *out = NULL;
    struct ob_api *api = ob_calloc(1, sizeof *api);
    if (!api)
        return ob_error_nomem(err);
    api->set = *options;
    pthread_mutex_init(&api->mutex, NULL);
    pthread_cond_init(&api->work, NULL);
    ob_list_init(&api->waiting);
    ob_list_init(&api->finished);
    api->stores = stores_new(options->config);
    api->jobs = ob_jobs_start();
    if (api->stores && api->jobs && start_threads(api)) {
        *out = api;
        return OUTBOX_OK;
    }
    ob_api_stop(api);
    ob_api_free(api);
    return ob_error_set(err, OUTBOX_INTERNAL, "cannot start the threads of the API");
}

void ob_api_stop(struct ob_api *api)
{
    if (!api)
        return;
    pthread_mutex_lock(&api->mutex);
    api->stop = true;
    pthread_cond_broadcast(&api->work);
    pthread_mutex_unlock(&api->mutex);
    for (size_t i = 0; i < OB_API_THREADS; i++)
        if (api->workers[i].started)
            pthread_join(api->workers[i].thread, NULL);
    while (!ob_list_empty(&api->waiting)) {
        struct ob_api_request *request = OB_CONTAINER(api->waiting.next, struct ob_api_request, node);
        ob_list_remove(&request->node);
        ob_api_problem(request, 503, "BUSY", "the relay is stopping", "ask another relay, or this one later");
        ob_list_push(&api->finished, &request->node);
    }
}

void ob_api_free(struct ob_api *api)
{
    if (!api)
        return;
    stores_release(api, api->stores);
    ob_jobs_stop(api->jobs);
    pthread_cond_destroy(&api->work);
    pthread_mutex_destroy(&api->mutex);
    ob_free(api);
}
