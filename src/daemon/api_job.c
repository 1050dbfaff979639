/* api_job.c - acts on messages, as jobs: a thread of its own does them step by step, so that a request never waits for them.
 *
 * Each step enters the store with the rights and the tenant of the token that began the job. Jobs live in the relay's memory: the
 * record of acts in the store is what lasts. A tenant sees and cancels its own jobs only. */
#include "daemon/api_job.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/lever.h"
#include "lib/bulk.h"
#include "lib/open.h"
#include "report/report.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_KEPT = 50, JOBS_WAITING = 8, IDS_MOST = 1000, FIND_MOST = 1000000, COUNT_CAP = 10000, SAMPLE = 5 };

enum state { WAITING, RUNNING, DONE, CANCELLED, FAILED };
static const char *const state_names[] = {"running", "running", "done", "cancelled", "failed"};

struct job {
    struct ob_list node;
    int64_t id;
    enum state state;
    bool cancel;
    /* what to do */
    struct ob_arena arena;
    struct ob_bulk bulk; /* used by the job thread only, once it is added */
    const char *shown;   /* the filter as it was given; "" for ids */
    const char *url, *schema;
    struct ob_bearer bearer;
    /* how far it is */
    int64_t total, done, refused, left; /* -1: not known */
    int64_t begun_us, ended_us;
    char error[200];
};

struct ob_jobs {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_t thread;
    bool started, stop;
    struct ob_list all; /* oldest first */
    size_t count;
    int64_t next_id;
};

/* ---- a store that enters for each call --------------------------------------------------------------------------- */

struct guarded {
    struct ob_store base;
    struct ob_store_ops ops;
    struct ob_store *real;
    const char *tenant_id; /* NULL: all */
};

static struct guarded *guarded_of(struct ob_store *store)
{
    return (struct guarded *)(void *)store;
}

static ob_code leave(struct guarded *guarded, ob_code code, struct outbox_error *err)
{
    ob_code left = guarded->real->ops->leave(guarded->real, !code, code ? NULL : err);
    return code ? code : left;
}

static ob_code guarded_list(struct ob_store *store, const struct ob_filter *filter, ob_message_fn *fn, void *ctx,
                            struct outbox_error *err)
{
    struct guarded *guarded = guarded_of(store);
    ob_code code = guarded->real->ops->enter(guarded->real, OB_RIGHTS_READ, guarded->tenant_id, err);
    return code ? code : leave(guarded, guarded->real->ops->list(guarded->real, filter, fn, ctx, err), err);
}

static ob_code guarded_operate(struct ob_store *store, const struct ob_operation *operation, ob_operated_fn *fn,
                               void *ctx, struct outbox_error *err)
{
    struct guarded *guarded = guarded_of(store);
    ob_code code = guarded->real->ops->enter(guarded->real, OB_RIGHTS_ACT, guarded->tenant_id, err);
    return code ? code : leave(guarded, guarded->real->ops->operate(guarded->real, operation, fn, ctx, err), err);
}

/* Only what a job needs; everything else is not there. */
static void guard(struct guarded *guarded, struct ob_store *real, const char *tenant_id)
{
    *guarded = (struct guarded){.real = real, .tenant_id = tenant_id};
    guarded->ops.kind = real->ops->kind;
    guarded->ops.list = guarded_list;
    guarded->ops.operate = guarded_operate;
    guarded->base.ops = &guarded->ops;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static bool should_stop(void *ctx)
{
    struct ob_api_job_run *run = ctx;
    pthread_mutex_lock(&run->jobs->mutex);
    bool stop = run->jobs->stop || run->job->cancel;
    pthread_mutex_unlock(&run->jobs->mutex);
    return stop;
}

static void tell_progress(void *ctx, const struct ob_bulk *bulk)
{
    struct ob_api_job_run *run = ctx;
    pthread_mutex_lock(&run->jobs->mutex);
    run->job->total = bulk->total;
    run->job->done = bulk->done;
    run->job->refused = bulk->refused;
    run->job->left = ob_bulk_left(bulk);
    pthread_mutex_unlock(&run->jobs->mutex);
}

static ob_code run_bulk(struct ob_jobs *jobs, struct job *job, struct outbox_error *err)
{
    struct ob_api_job_run run = {jobs, job};
    struct ob_open open = {.schema = job->schema, .application = "outbox api job"};
    struct ob_store *store = NULL;
    struct guarded guarded;
    ob_code code = ob_store_open(job->url, &open, &store, err);
    if (code)
        return code;
    guard(&guarded, store, job->bearer.tenant_id[0] ? job->bearer.tenant_id : NULL);
    job->bulk.store = &guarded.base;
    job->bulk.stop = should_stop;
    job->bulk.progress = tell_progress;
    job->bulk.ctx = &run;
    code = ob_bulk_find(&job->bulk, job->bulk.limit ? job->bulk.limit : FIND_MOST, NULL, NULL, err);
    if (!code && !job->bulk.interrupted)
        code = ob_bulk_run(&job->bulk, err);
    tell_progress(&run, &job->bulk);
    store->ops->close(store);
    return code;
}

static struct job *next_job(struct ob_jobs *jobs)
{
    OB_LIST_EACH (it, &jobs->all) {
        struct job *job = OB_CONTAINER(it, struct job, node);
        if (job->state == WAITING)
            return job;
    }
    return NULL;
}

static void *run_jobs(void *ctx)
{
    struct ob_jobs *jobs = ctx;
    struct job *job = NULL;
    pthread_mutex_lock(&jobs->mutex);
    for (;;) {
        struct outbox_error err = {0};
        while (!jobs->stop && !(job = next_job(jobs)))
            pthread_cond_wait(&jobs->work, &jobs->mutex);
        if (jobs->stop)
            break;
        job->state = RUNNING;
        pthread_mutex_unlock(&jobs->mutex);
        ob_code code = run_bulk(jobs, job, &err);
        pthread_mutex_lock(&jobs->mutex);
        job->state = code ? FAILED : job->bulk.interrupted ? CANCELLED : DONE;
        job->ended_us = ob_clock_wall_us();
        snprintf(job->error, sizeof job->error, "%.199s", code ? err.text : "");
        ob_bulk_fini(&job->bulk);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void job_free(struct job *job)
{
    if (!job)
        return;
    ob_bulk_fini(&job->bulk);
    ob_arena_fini(&job->arena);
    ob_free(job);
}

struct ob_jobs *ob_jobs_start(void)
{
    struct ob_jobs *jobs = ob_calloc(1, sizeof *jobs);
    sigset_t all, before;
    if (!jobs)
        return NULL;
    pthread_mutex_init(&jobs->mutex, NULL);
    pthread_cond_init(&jobs->work, NULL);
    ob_list_init(&jobs->all);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    jobs->started = pthread_create(&jobs->thread, NULL, run_jobs, jobs) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (jobs->started)
        return jobs;
    ob_jobs_stop(jobs);
    return NULL;
}

void ob_jobs_stop(struct ob_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->mutex);
    jobs->stop = true;
    pthread_cond_broadcast(&jobs->work);
    pthread_mutex_unlock(&jobs->mutex);
    if (jobs->started)
        pthread_join(jobs->thread, NULL);
    while (!ob_list_empty(&jobs->all)) {
        struct job *job = OB_CONTAINER(jobs->all.next, struct job, node);
        ob_list_remove(&job->node);
        job_free(job);
    }
    pthread_cond_destroy(&jobs->work);
    pthread_mutex_destroy(&jobs->mutex);
    ob_free(jobs);
}

/* ---- a new job --------------------------------------------------------------------------------------------------- */

static ob_code read_ids(struct ob_api_request *request, struct ob_arena *arena, struct ob_filter *filter,
                        struct outbox_error *err)
{
    const json_t *list = json_object_get(request->json, "ids");
    size_t count = json_array_size(list);
    if (!list || json_is_null(list))
        return OUTBOX_OK;
    if (!json_is_array(list) || count < 1 || count > IDS_MOST)
        return ob_error_set(err, OUTBOX_INVALID, "\"ids\" must be a list of 1 to %d message ids", IDS_MOST);
    struct outbox_uuid *ids = ob_arena_calloc(arena, count, sizeof *ids);
    if (!ids)
        return ob_error_nomem(err);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || !outbox_uuid_parse(text, &ids[i]))
            return ob_error_set(err, OUTBOX_INVALID, "\"ids\" must be a list of message ids, which are uuids");
    }
    filter->ids = ids;
    filter->id_count = count;
    return OUTBOX_OK;
}

static ob_code read_count(const struct ob_api_request *request, const char *name, int64_t *number,
                          struct outbox_error *err)
{
    const json_t *value = json_object_get(request->json, name);
    if (!value || json_is_null(value))
        return OUTBOX_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > FIND_MOST)
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" must be a whole number from 1 to %d", name, FIND_MOST);
    *number = json_integer_value(value);
    return OUTBOX_OK;
}

static ob_code read_filter(struct ob_api_request *request, struct job *job, struct outbox_error *err)
{
    const char *text = NULL, *group = NULL;
    struct ob_filter *filter = &job->bulk.filter;
    ob_code code = ob_api_text(request, "filter", &text, err);
    if (!code)
        code = ob_api_text(request, "fingerprint", &group, err);
    if (!code && text && *text)
        code = ob_filter_parse(filter, text, job->begun_us, &job->arena, err);
    if (!code && group && *group)
        code = ob_filter_add(filter, "group", group, job->begun_us, &job->arena, err);
    if (!code)
        code = read_ids(request, &job->arena, filter, err);
    if (code)
        return code;
    job->shown = ob_arena_strdup(&job->arena, text && *text ? text : group ? group : "");
    if (!ob_filter_selects(filter))
        return ob_error_set(err, OUTBOX_INVALID,
                            "no messages selected: give ids, or a filter such as topic:orders.* or age:>1h");
    if (request->bearer.tenant_id[0] && !filter->tenant_id)
        filter->tenant_id = job->bearer.tenant_id;
    return job->shown ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code read_operation(struct ob_api_request *request, struct job *job, struct outbox_error *err)
{
    const char *act = NULL, *topic = NULL, *name_space = NULL, *reason = NULL;
    struct ob_operation *operation = &job->bulk.operation;
    ob_code code = ob_api_text(request, "act", &act, err);
    if (!code)
        code = ob_api_text(request, "topic", &topic, err);
    if (!code)
        code = ob_api_text(request, "namespace", &name_space, err);
    if (!code)
        code = ob_api_text(request, "reason", &reason, err);
    int lever = act ? ob_lever_find(act) : 0;
    if (!code && !lever)
        code = ob_error_set(err, OUTBOX_INVALID, "\"act\" must be retry, discard, skip, redeliver, expire or move");
    if (!code)
        code = read_count(request, "limit", &job->bulk.limit, err);
    if (!code)
        code = read_count(request, "rate", &job->bulk.rate, err);
    if (code)
        return code;
    job->bulk.period_us = 1000000;
    operation->lever = (enum ob_lever)(lever - 1);
    operation->topic = topic && *topic ? ob_arena_strdup(&job->arena, topic) : NULL;
    operation->name_space = name_space && *name_space ? ob_arena_strdup(&job->arena, name_space) : NULL;
    operation->actor.actor = job->bearer.name;
    operation->actor.reason = reason && *reason ? ob_arena_strdup(&job->arena, reason) : NULL;
    return OUTBOX_OK;
}

/* Lists at most five, and counts up to the cap. */
struct preview {
    struct ob_json json;
    int64_t count;
};

static bool preview_row(void *ctx, const struct ob_message_row *row)
{
    struct preview *preview = ctx;
    if (preview->count++ < SAMPLE)
        ob_json_message(&preview->json, row, false);
    return true;
}

static ob_code dry_run(struct ob_api_request *request, struct job *job, struct outbox_error *err)
{
    struct preview preview = {.count = 0};
    struct guarded guarded;
    guard(&guarded, request->store, job->bearer.tenant_id[0] ? job->bearer.tenant_id : NULL);
    job->bulk.store = &guarded.base;
    ob_json_init(&preview.json, &request->answer);
    ob_json_object(&preview.json);
    ob_json_key(&preview.json, "sample");
    ob_json_array(&preview.json);
    int64_t most = job->bulk.limit && job->bulk.limit < COUNT_CAP ? job->bulk.limit : COUNT_CAP;
    ob_code code = ob_bulk_find(&job->bulk, most, preview_row, &preview, err);
    if (code)
        return code;
    ob_json_end(&preview.json);
    ob_json_count(&preview.json, "count", job->bulk.total);
    ob_json_key(&preview.json, "exact"), ob_json_bool(&preview.json, !job->bulk.more);
    ob_json_end(&preview.json);
    request->status = 200;
    return OUTBOX_OK;
}

/* Forgets the oldest jobs that have ended. */
static void forget_old(struct ob_jobs *jobs)
{
    OB_LIST_EACH_SAFE (it, &jobs->all) {
        struct job *job = OB_CONTAINER(it, struct job, node);
        if (jobs->count < JOBS_KEPT)
            return;
        if (job->state == WAITING || job->state == RUNNING)
            continue;
        ob_list_remove(&job->node);
        jobs->count--;
        job_free(job);
    }
}

static ob_code add(struct ob_jobs *jobs, struct job *job, struct outbox_error *err)
{
    size_t waiting = 0;
    pthread_mutex_lock(&jobs->mutex);
    OB_LIST_EACH (it, &jobs->all)
        waiting += OB_CONTAINER(it, struct job, node)->state == WAITING;
    bool room = waiting < JOBS_WAITING && !jobs->stop;
    if (room) {
        forget_old(jobs);
        job->id = ++jobs->next_id;
        ob_list_push(&jobs->all, &job->node);
        jobs->count++;
        pthread_cond_signal(&jobs->work);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return room ? OUTBOX_OK : ob_error_set(err, OUTBOX_BUSY, "%d jobs wait already; try again later", JOBS_WAITING);
}

ob_code ob_api_act(struct ob_api_request *request, struct outbox_error *err)
{
    struct job *job = ob_calloc(1, sizeof *job);
    struct ob_json json;
    char id[32];
    if (!job)
        return ob_error_nomem(err);
    ob_arena_init(&job->arena, 4096);
    job->bearer = request->bearer;
    job->begun_us = ob_clock_wall_us();
    job->total = job->left = -1;
    job->url = ob_arena_strdup(&job->arena, request->store_url);
    job->schema = request->store_schema ? ob_arena_strdup(&job->arena, request->store_schema) : NULL;
    ob_code code = job->url ? OUTBOX_OK : ob_error_nomem(err);
    if (!code)
        code = read_operation(request, job, err);
    if (!code)
        code = read_filter(request, job, err);
    if (!code)
        code = ob_bulk_check(&job->bulk, err);
    bool dry = json_is_true(json_object_get(request->json, "dry_run"));
    if (!code && dry)
        code = dry_run(request, job, err);
    else if (!code)
        code = add(ob_api_jobs(request->api), job, err);
    if (code || dry) {
        job_free(job);
        return code;
    }
    snprintf(id, sizeof id, "%lld", (long long)job->id);
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "job", id);
    ob_json_end(&json);
    return OUTBOX_OK;
}

/* ---- the jobs there are ------------------------------------------------------------------------------------------ */

static bool may_see(const struct ob_api_request *request, const struct job *job)
{
    return !request->bearer.tenant_id[0] || strcmp(request->bearer.tenant_id, job->bearer.tenant_id) == 0;
}

static void put_number(struct ob_json *json, const char *name, int64_t number)
{
    ob_json_key(json, name);
    if (number < 0)
        ob_json_null(json);
    else
        ob_json_int(json, number);
}

static void put_job(struct ob_json *json, const struct job *job)
{
    char id[32];
    snprintf(id, sizeof id, "%lld", (long long)job->id);
    ob_json_object(json);
    ob_json_text(json, "id", id);
    ob_json_text(json, "act", ob_lever_name(job->bulk.operation.lever));
    ob_json_text(json, "filter", job->shown);
    ob_json_text(json, "state", state_names[job->state]);
    ob_json_count(json, "done", job->done);
    ob_json_count(json, "refused", job->refused);
    put_number(json, "total", job->total);
    put_number(json, "left", job->left);
    ob_json_text(json, "error", job->error[0] ? job->error : NULL);
    ob_json_text(json, "actor", job->bearer.name);
    ob_json_time(json, "begun", job->begun_us);
    ob_json_time(json, "ended", job->ended_us);
    ob_json_end(json);
}

ob_code ob_api_job_list(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_jobs *jobs = ob_api_jobs(request->api);
    struct ob_json json;
    (void)err;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_key(&json, "jobs");
    ob_json_array(&json);
    pthread_mutex_lock(&jobs->mutex);
    for (struct ob_list *it = jobs->all.prev; it != &jobs->all; it = it->prev) {
        const struct job *job = OB_CONTAINER(it, struct job, node);
        if (may_see(request, job))
            put_job(&json, job);
    }
    pthread_mutex_unlock(&jobs->mutex);
    ob_json_end(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}

/* Shows one, after it perhaps told it to end. */
static ob_code one_job(struct ob_api_request *request, bool cancel, struct outbox_error *err)
{
    struct ob_jobs *jobs = ob_api_jobs(request->api);
    struct ob_json json;
    struct job *found = NULL;
    char *end;
    int64_t id = strtoll(request->id, &end, 10);
    pthread_mutex_lock(&jobs->mutex);
    OB_LIST_EACH (it, &jobs->all) {
        struct job *job = OB_CONTAINER(it, struct job, node);
        if (job->id == id && !*end && may_see(request, job))
            found = job;
    }
    if (found) {
        found->cancel = found->cancel || cancel;
        if (cancel && found->state == WAITING) {
            found->state = CANCELLED;
            found->ended_us = ob_clock_wall_us();
        }
        ob_json_init(&json, &request->answer);
        put_job(&json, found);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return found ? OUTBOX_OK
                 : ob_error_set(err, OUTBOX_UNKNOWN_NAME, "there is no job %.32s; the relay keeps the last %d",
                                request->id, JOBS_KEPT);
}

ob_code ob_api_job(struct ob_api_request *request, struct outbox_error *err)
{
    return one_job(request, false, err);
}

ob_code ob_api_job_cancel(struct ob_api_request *request, struct outbox_error *err)
{
    return one_job(request, true, err);
}
