/* names.c - see names.h. */
#include "sink/curl/names.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/resolve.h"
#include "sink/curl/loop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FRESH_US INT64_C(60000000)
#define STALE_US INT64_C(600000000)

struct ob_curl_name {
    struct ob_list node, callers; /* of struct ob_curl_place */
    char *host;
    int port;
    struct ob_lookup *lookup; /* NULL: none is under way */
    bool found;
    int64_t found_us;  /* when it was last found... */
    bool doubtful;     /* ...and no connection came about since */
    unsigned version;  /* changes with the addresses */
    struct ob_buf row; /* "host:port:address,address", as libcurl wants it */
};

static struct ob_curl_call *call_of(struct ob_curl_place *place)
{
    return OB_CONTAINER(place, struct ob_curl_call, place);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static void name_free(struct ob_curl_name *name)
{
    ob_list_remove(&name->node);
    ob_lookup_free(name->lookup);
    ob_buf_fini(&name->row);
    ob_free(name->host);
    ob_free(name);
}

static struct ob_curl_name *name_get(struct ob_curl_names *names, const char *host, int port)
{
    OB_LIST_EACH (it, &names->list) {
        struct ob_curl_name *name = OB_CONTAINER(it, struct ob_curl_name, node);
        if (name->port == port && strcasecmp(name->host, host) == 0)
            return name;
    }
    struct ob_curl_name *name = ob_calloc(1, sizeof *name);
    if (!name)
        return NULL;
    ob_list_init(&name->node);
    ob_list_init(&name->callers);
    name->port = port;
    if (!(name->host = ob_strdup(host))) {
        name_free(name);
        return NULL;
    }
    ob_list_push(&names->list, &name->node);
    return name;
}

static void name_take(struct ob_curl_names *names, struct ob_curl_name *name, const struct ob_addresses *found)
{
    size_t count = 0;
    struct ob_buf row = OB_BUF_INIT;
    ob_buf_printf(&row, "%s:%d:", name->host, name->port);
    for (size_t i = 0; i < found->count; i++) {
        if (strchr(found->text[i], '%')) /* of one link only */
            continue;
        ob_buf_puts(&row, count++ ? "," : "");
        ob_buf_puts(&row, found->text[i]);
    }
    if (!count || !ob_buf_ok(&row)) {
        ob_buf_fini(&row);
        return;
    }
    if (!name->found || strcmp(ob_buf_text(&row), ob_buf_text(&name->row)) != 0)
        name->version = ++names->version;
    ob_buf_fini(&name->row);
    name->row = row;
    name->found = true;
    name->doubtful = false;
    name->found_us = ob_clock_mono_us();
}

static void wake(void *ctx)
{
    uv_async_send(ctx);
}

static bool name_look_up(struct ob_curl_names *names, struct ob_curl_name *name)
{
    if (!name->lookup)
        name->lookup = ob_lookup_start(name->host, wake, names->async);
    return name->lookup != NULL;
}

/* ---- those who wait -------------------------------------------------------------------------------------------- */

/* libcurl reads the list when the call begins, once; an older one is of no use then. */
static bool place_give(struct ob_curl_place *place)
{
    struct ob_curl_name *name = place->name;
    if (place->version == name->version)
        return true;
    struct curl_slist *row = curl_slist_append(NULL, ob_buf_text(&name->row));
    if (!row || curl_easy_setopt(call_of(place)->easy, CURLOPT_RESOLVE, row) != CURLE_OK) {
        curl_slist_free_all(row);
        return false;
    }
    curl_slist_free_all(place->addresses);
    place->addresses = row;
    place->version = name->version;
    return true;
}

void ob_curl_place_leave(struct ob_curl_place *place)
{
    if (!place->waits)
        return;
    place->waits = false;
    ob_list_remove(&place->node);
    ob_list_remove(&place->turn);
}

static void place_answer(struct ob_curl_names *names, struct ob_curl_place *place, const char *reason)
{
    struct ob_curl_call *call = call_of(place);
    CURLcode result = place->name->found ? CURLE_OK : CURLE_COULDNT_RESOLVE_HOST;
    ob_curl_place_leave(place);
    if (result != CURLE_OK)
        snprintf(call->error, sizeof call->error, "the name %s cannot be resolved: %s", place->name->host, reason);
    else if (!place_give(place))
        result = CURLE_OUT_OF_MEMORY;
    names->answer(call, result);
}

/* Calls that start to wait again while the others are answered wait for the next lookup. */
static void name_answer(struct ob_curl_names *names, struct ob_curl_name *name, const char *reason)
{
    struct ob_list callers;
    ob_list_init(&callers);
    for (struct ob_list *node; (node = ob_list_shift(&name->callers));)
        ob_list_push(&callers, node);
    while (!ob_list_empty(&callers))
        place_answer(names, OB_CONTAINER(callers.next, struct ob_curl_place, node), reason);
}

static void on_async(uv_async_t *async)
{
    struct ob_curl_names *names = async->data;
    struct ob_addresses found;
    if (!names)
        return;
    OB_LIST_EACH (it, &names->list) {
        struct ob_curl_name *name = OB_CONTAINER(it, struct ob_curl_name, node);
        if (!name->lookup || !ob_lookup_poll(name->lookup, &found))
            continue;
        ob_lookup_free(name->lookup);
        name->lookup = NULL;
        if (found.error == 0)
            name_take(names, name, &found);
        else if (name->found && ob_clock_mono_us() - name->found_us > STALE_US)
            name->found = false;
        name_answer(names, name, found.reason);
    }
    names->answered(names->ctx);
}

static void on_timer(uv_timer_t *timer);

/* Whole milliseconds, and not early. */
static void timer_set(struct ob_curl_names *names)
{
    if (ob_list_empty(&names->asking)) {
        uv_timer_stop(names->timer);
        return;
    }
    const struct ob_curl_place *first = OB_CONTAINER(names->asking.next, struct ob_curl_place, turn);
    int64_t wait_us = first->until_us - ob_clock_mono_us();
    uv_update_time(names->timer->loop);
    uv_timer_start(names->timer, on_timer, wait_us > 0 ? (uint64_t)wait_us / 1000 + 1 : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct ob_curl_names *names = timer->data;
    int64_t now = ob_clock_mono_us();
    while (!ob_list_empty(&names->asking)) {
        struct ob_curl_place *place = OB_CONTAINER(names->asking.next, struct ob_curl_place, turn);
        if (place->until_us > now)
            break;
        place_answer(names, place, "no answer in time");
    }
    timer_set(names);
    names->answered(names->ctx);
}

enum ob_curl_asked ob_curl_names_ask(struct ob_curl_names *names, struct ob_curl_call *call)
{
    struct ob_curl_place *place = &call->place;
    struct ob_curl_name *name = place->name;
    int64_t now = ob_clock_mono_us();
    if (!name)
        return OB_CURL_KNOWN;
    if (name->found && (name->doubtful || now - name->found_us > FRESH_US))
        name_look_up(names, name);
    if (name->found)
        return place_give(place) ? OB_CURL_KNOWN : OB_CURL_NOMEM;
    if (!name_look_up(names, name))
        return OB_CURL_NOMEM;
    place->waits = true;
    place->until_us = now + names->patience_us;
    ob_list_push(&name->callers, &place->node);
    ob_list_push(&names->asking, &place->turn);
    if (!uv_is_active((uv_handle_t *)names->timer))
        timer_set(names);
    return OB_CURL_WAITS;
}

void ob_curl_place_failed(struct ob_curl_place *place)
{
    if (place->name)
        place->name->doubtful = true;
}

/* ---- places -------------------------------------------------------------------------------------------------------- */

static bool is_address(const char *host)
{
    unsigned char bytes[16];
    return host[0] == '[' || inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* libcurl's defaults: what is no URL it will refuse itself. */
static struct ob_curl_name *name_of(struct ob_curl_names *names, const char *text, bool proxy, bool *ok)
{
    char *host = NULL, *port = NULL, *scheme = NULL;
    struct ob_curl_name *name = NULL;
    CURLU *url = curl_url();
    *ok = url != NULL;
    if (url && curl_url_set(url, CURLUPART_URL, text, CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK && !is_address(host)) {
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
        CURLUcode code = curl_url_get(url, CURLUPART_PORT, &port, proxy ? 0 : CURLU_DEFAULT_PORT);
        int number = code == CURLUE_OK                        ? (int)strtol(port, NULL, 10)
                     : scheme && strcmp(scheme, "https") == 0 ? 443
                                                              : 1080;
        name = name_get(names, host, number);
        *ok = name != NULL;
    }
    curl_free(host);
    curl_free(port);
    curl_free(scheme);
    curl_url_cleanup(url);
    return name;
}

bool ob_curl_place_set(struct ob_curl_names *names, struct ob_curl_place *place, const char *url, bool proxy)
{
    bool ok;
    if (place->proxied && !proxy)
        return true;
    struct ob_curl_name *name = name_of(names, url, proxy, &ok);
    place->proxied = proxy;
    if (name != place->name)
        place->version = 0;
    place->name = name;
    return ok;
}

void ob_curl_place_fini(struct ob_curl_place *place)
{
    ob_curl_place_leave(place);
    curl_slist_free_all(place->addresses);
    place->addresses = NULL;
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
    ob_free(handle);
}

bool ob_curl_names_init(struct ob_curl_names *names, uv_loop_t *uv, int64_t patience_us)
{
    memset(names, 0, sizeof *names);
    ob_list_init(&names->list);
    ob_list_init(&names->asking);
    names->patience_us = patience_us;
    names->async = ob_calloc(1, sizeof *names->async);
    names->timer = ob_calloc(1, sizeof *names->timer);
    if (!names->async || !names->timer || uv_async_init(uv, names->async, on_async) != 0) {
        ob_free(names->async);
        ob_free(names->timer);
        names->async = NULL;
        names->timer = NULL;
        return false;
    }
    uv_unref((uv_handle_t *)names->async);
    uv_timer_init(uv, names->timer);
    names->async->data = names->timer->data = names;
    return true;
}

void ob_curl_names_fini(struct ob_curl_names *names)
{
    if (!names->async)
        return;
    OB_LIST_EACH_SAFE (it, &names->list)
        name_free(OB_CONTAINER(it, struct ob_curl_name, node));
    names->async->data = NULL;
    uv_close((uv_handle_t *)names->async, handle_closed);
    uv_close((uv_handle_t *)names->timer, handle_closed);
    names->async = NULL;
}

void ob_curl_names_renew(struct ob_curl_names *names)
{
    OB_LIST_EACH (it, &names->list)
        OB_CONTAINER(it, struct ob_curl_name, node)->version = ++names->version;
}
