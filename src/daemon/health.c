/* health.c - see health.h. One lock guards the little data there is; the tick, which is set most often, is atomic. */
#include "daemon/health.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct store {
    struct store *next;
    char *name;
    bool ready;
    char reason[512];
};

struct ob_health {
    _Atomic int64_t tick_us; /* of the monotonic clock */
    int64_t stall_us;
    pthread_mutex_t lock; /* guards all members below */
    enum ob_health_phase phase;
    struct store *stores;
};

static const char *const phase_names[] = {"starting", "running", "stopping"};

struct ob_health *ob_health_new(int64_t stall_us)
{
    struct ob_health *health = ob_calloc(1, sizeof *health);
    if (!health)
        return NULL;
    pthread_mutex_init(&health->lock, NULL);
    health->stall_us = stall_us > 0 ? stall_us : OB_HEALTH_STALL_US;
    ob_health_tick(health);
    return health;
}

void ob_health_free(struct ob_health *health)
{
    if (!health)
        return;
    ob_health_forget_stores(health);
    pthread_mutex_destroy(&health->lock);
    ob_free(health);
}

void ob_health_tick(struct ob_health *health)
{
    atomic_store(&health->tick_us, ob_clock_mono_us());
}

void ob_health_set_phase(struct ob_health *health, enum ob_health_phase phase)
{
    pthread_mutex_lock(&health->lock);
    health->phase = phase;
    pthread_mutex_unlock(&health->lock);
}

static struct store *store_of(struct ob_health *health, const char *name)
{
    struct store **link = &health->stores;
    for (; *link; link = &(*link)->next)
        if (strcmp((*link)->name, name) == 0)
            return *link;
    struct store *store = ob_calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->name = ob_strdup(name);
    if (!store->name) {
        ob_free(store);
        return NULL;
    }
    *link = store;
    return store;
}

void ob_health_set_store(struct ob_health *health, const char *name, bool ready, const char *reason)
{
    pthread_mutex_lock(&health->lock);
    struct store *store = store_of(health, name);
    if (store) {
        store->ready = ready;
        snprintf(store->reason, sizeof store->reason, "%s", reason ? reason : "");
    }
    pthread_mutex_unlock(&health->lock);
}

void ob_health_forget_stores(struct ob_health *health)
{
    pthread_mutex_lock(&health->lock);
    while (health->stores) {
        struct store *store = health->stores;
        health->stores = store->next;
        ob_free(store->name);
        ob_free(store);
    }
    pthread_mutex_unlock(&health->lock);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool ob_health_live(struct ob_health *health)
{
    return ob_clock_mono_us() - atomic_load(&health->tick_us) < health->stall_us;
}

bool ob_health_live_json(struct ob_health *health, struct ob_buf *buf)
{
    struct ob_json json;
    bool live = ob_health_live(health);
    ob_json_init(&json, buf);
    ob_json_object(&json);
    ob_json_key(&json, "live");
    ob_json_bool(&json, live);
    ob_json_key(&json, "loop_turned_s_ago");
    ob_json_double(&json, (double)(ob_clock_mono_us() - atomic_load(&health->tick_us)) / 1e6);
    ob_json_end(&json);
    return live;
}

static bool stores_ready(const struct ob_health *health)
{
    for (const struct store *store = health->stores; store; store = store->next)
        if (!store->ready)
            return false;
    return health->stores != NULL;
}

bool ob_health_ready_json(struct ob_health *health, struct ob_buf *buf)
{
    struct ob_json json;
    bool live = ob_health_live(health);
    pthread_mutex_lock(&health->lock);
    bool ready = live && health->phase == OB_HEALTH_RUNNING && stores_ready(health);
    ob_json_init(&json, buf);
    ob_json_object(&json);
    ob_json_key(&json, "ready");
    ob_json_bool(&json, ready);
    ob_json_key(&json, "phase");
    ob_json_string(&json, phase_names[health->phase]);
    ob_json_key(&json, "live");
    ob_json_bool(&json, live);
    ob_json_key(&json, "stores");
    ob_json_array(&json);
    for (const struct store *store = health->stores; store; store = store->next) {
        ob_json_object(&json);
        ob_json_key(&json, "name");
        ob_json_string(&json, store->name);
        ob_json_key(&json, "ready");
        ob_json_bool(&json, store->ready);
        ob_json_key(&json, "reason");
        ob_json_string(&json, store->reason[0] ? store->reason : NULL);
        ob_json_end(&json);
    }
    ob_json_end(&json);
    ob_json_end(&json);
    pthread_mutex_unlock(&health->lock);
    return ready;
}
