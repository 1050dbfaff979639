/* dial.c - see dial.h. One thread. */
#include "store/pg/dial.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/resolve.h"
#include "store/pg/conn.h"
#include "store/pg/store.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A name that takes longer than PATIENCE_US to resolve is skipped if others are resolved. */
enum { PATIENCE_US = 1000000, CONNECT_SECONDS = 10 };

/* One host of the list. */
struct place {
    char *host, *hostaddr, *port;
    struct ob_lookup *lookup; /* NULL: nothing to resolve, or found is set */
    struct ob_addresses *found;
};

struct ob_pg_dial {
    char *conninfo, *application;
    int turn, seconds;
    int fd;
    int64_t patient_until_us;
    struct place *places;
    size_t count;
};

static void wake(void *ctx)
{
    uint64_t one = 1;
    ssize_t put = write(((struct ob_pg_dial *)ctx)->fd, &one, sizeof one);
    (void)put; /* a full counter is readable too */
}

/* ---- the hosts that libpq would use ---- */

/* The conninfo overrides parameters before dbname, but not those after it. A vanished peer must be detected within a lease, not
 * after the kernel's two hours. */
struct call {
    const char *keys[16], *values[16];
    int count;
};

static void call_add(struct call *call, const char *key, const char *value)
{
    call->keys[call->count] = key;
    call->values[call->count++] = value;
}

static struct call call_of(const struct ob_pg_dial *dial)
{
    struct call call = {.count = 0};
    call_add(&call, "connect_timeout", getenv("PGCONNECT_TIMEOUT") ? NULL : "10");
    call_add(&call, "keepalives_idle", "10");
    call_add(&call, "keepalives_interval", "5");
    call_add(&call, "keepalives_count", "3");
    call_add(&call, "tcp_user_timeout", "25000");
    call_add(&call, "fallback_application_name", dial->application);
    call_add(&call, "dbname", dial->conninfo);
    call_add(&call, "client_encoding", "UTF8");
    return call;
}

/* Only libpq knows what a service file and the environment add, and reports it only for a connection. So this starts one that
 * cannot succeed: with an invalid sslmode it fails before any I/O. NULL: out of memory. */
static PQconninfoOption *effective(const struct ob_pg_dial *dial)
{
    struct call call = call_of(dial);
    call_add(&call, "password", "-"); /* otherwise libpq reads the password file */
    call_add(&call, "sslmode", "-");
    PGconn *conn = PQconnectStartParams(call.keys, call.values, 1);
    PQconninfoOption *options = conn ? PQconninfo(conn) : NULL;
    PQfinish(conn);
    return options;
}

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *option = options; option->keyword; option++)
        if (strcmp(option->keyword, keyword) == 0)
            return option->val ? option->val : "";
    return "";
}

static size_t count_of(const char *list)
{
    size_t count = 1;
    for (const char *c = list; *c; c++)
        count += *c == ',';
    return count;
}

/* A copy of the i-th item of "a,b,c". NULL: out of memory. */
static char *item_of(const char *list, size_t i)
{
    for (; i; i--)
        list = strchr(list, ',') + 1;
    return ob_memdup(list, strcspn(list, ","));
}

/* False: out of memory. Lists of different lengths are left to libpq, which refuses them: no place is made. */
static bool read_places(struct ob_pg_dial *dial, const PQconninfoOption *options)
{
    const char *host = value_of(options, "host"), *hostaddr = value_of(options, "hostaddr"),
               *port = value_of(options, "port"), *timeout = value_of(options, "connect_timeout");
    size_t count = *hostaddr ? count_of(hostaddr) : count_of(host), ports = count_of(port);
    long seconds = strtol(timeout, NULL, 10);
    dial->seconds = seconds <= 0 ? CONNECT_SECONDS : seconds < INT32_MAX ? (int)seconds : INT32_MAX;
    if ((!*host && !*hostaddr) || (*host && *hostaddr && count_of(host) != count) || (ports != 1 && ports != count))
        return true;
    if (!(dial->places = ob_calloc(count, sizeof *dial->places)))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct place *place = &dial->places[i];
        place->host = *host ? item_of(host, i) : ob_strdup("");
        place->hostaddr = *hostaddr ? item_of(hostaddr, i) : ob_strdup("");
        place->port = item_of(port, ports == 1 ? 0 : i);
        dial->count++;
        if (!place->host || !place->hostaddr || !place->port)
            return false;
    }
    return true;
}

/* ---- names ---- */

static bool is_name(const struct place *place)
{
    return !*place->hostaddr && *place->host && *place->host != '/' && *place->host != '@';
}

static bool look_up(struct ob_pg_dial *dial)
{
    for (size_t i = 0; i < dial->count; i++) {
        struct place *place = &dial->places[i];
        if (!is_name(place))
            continue;
        place->found = ob_calloc(1, sizeof *place->found);
        place->lookup = place->found ? ob_lookup_start(place->host, wake, dial) : NULL;
        if (!place->lookup)
            return false;
    }
    return true;
}

enum outbox_code ob_pg_dial_start(const char *conninfo, const char *application, int turn, struct ob_pg_dial **out,
                                  struct outbox_error *err)
{
    *out = NULL;
    enum outbox_code code = ob_pg_check(conninfo, err);
    if (code)
        return code;
    struct ob_pg_dial *dial = ob_calloc(1, sizeof *dial);
    if (!dial)
        return ob_error_nomem(err);
    dial->turn = turn;
    dial->conninfo = ob_strdup(conninfo);
    dial->application = ob_strdup(application ? application : "outbox");
    dial->patient_until_us = ob_clock_boot_us() + PATIENCE_US;
    dial->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* readable from the start: go has work to do */
    if (dial->fd < 0)
        code = ob_error_set(err, OUTBOX_UNREACHABLE, "cannot connect: no descriptor: %s", strerror(errno));
    else if (!dial->conninfo || !dial->application)
        code = ob_error_nomem(err);
    PQconninfoOption *options = code ? NULL : effective(dial);
    if (!code && (!options || !read_places(dial, options) || !look_up(dial)))
        code = ob_error_nomem(err);
    PQconninfoFree(options);
    if (code)
        ob_pg_dial_free(dial);
    else
        *out = dial;
    return code;
}

void ob_pg_dial_free(struct ob_pg_dial *dial)
{
    if (!dial)
        return;
    for (size_t i = 0; i < dial->count; i++) {
        struct place *place = &dial->places[i];
        ob_lookup_free(place->lookup);
        ob_free(place->found);
        ob_free(place->host);
        ob_free(place->hostaddr);
        ob_free(place->port);
    }
    ob_free(dial->places);
    if (dial->fd >= 0)
        close(dial->fd);
    ob_free(dial->conninfo);
    ob_free(dial->application);
    ob_free(dial);
}

int ob_pg_dial_fd(const struct ob_pg_dial *dial)
{
    return dial->fd;
}

const char *ob_pg_dial_awaits(const struct ob_pg_dial *dial)
{
    for (size_t i = 0; i < dial->count; i++)
        if (dial->places[i].lookup)
            return dial->places[i].host;
    return NULL;
}

static bool is_usable(const struct place *place)
{
    return !place->lookup && (!place->found || place->found->count);
}

static bool any_usable(const struct ob_pg_dial *dial)
{
    for (size_t i = 0; i < dial->count; i++)
        if (is_usable(&dial->places[i]))
            return true;
    return false;
}

int64_t ob_pg_dial_due_us(const struct ob_pg_dial *dial)
{
    return any_usable(dial) ? dial->patient_until_us : INT64_MAX;
}

/* True when there is no point in waiting longer. */
static bool take_answers(struct ob_pg_dial *dial)
{
    uint64_t count;
    ssize_t got = read(dial->fd, &count, sizeof count);
    (void)got;
    for (size_t i = 0; i < dial->count; i++) {
        struct place *place = &dial->places[i];
        if (place->lookup && ob_lookup_poll(place->lookup, place->found)) {
            ob_lookup_free(place->lookup);
            place->lookup = NULL;
        }
    }
    return !ob_pg_dial_awaits(dial) || (any_usable(dial) && ob_clock_boot_us() >= dial->patient_until_us);
}

/* ---- calling libpq ---- */

/* Three lists of the same length. */
struct lists {
    struct ob_buf host, hostaddr, port;
    size_t count;
};

static void lists_add(struct lists *lists, const struct place *place, const char *hostaddr)
{
    const char *comma = lists->count++ ? "," : "";
    ob_buf_puts(&lists->host, comma);
    ob_buf_puts(&lists->host, place->host);
    ob_buf_puts(&lists->hostaddr, comma);
    ob_buf_puts(&lists->hostaddr, hostaddr);
    ob_buf_puts(&lists->port, comma);
    ob_buf_puts(&lists->port, place->port);
}

static void fill_lists(const struct ob_pg_dial *dial, struct lists *lists)
{
    size_t turn = dial->turn > 0 ? (size_t)dial->turn : 0;
    for (size_t i = 0; i < dial->count; i++) {
        const struct place *place = &dial->places[(i + turn) % dial->count];
        if (!is_usable(place))
            continue;
        if (!place->found)
            lists_add(lists, place, place->hostaddr);
        for (size_t j = 0; place->found && j < place->found->count; j++)
            lists_add(lists, place, place->found->text[(j + turn / dial->count) % place->found->count]);
    }
}

static enum outbox_code call_libpq(const struct ob_pg_dial *dial, bool start, PGconn **conn, struct outbox_error *err)
{
    struct lists lists = {OB_BUF_INIT, OB_BUF_INIT, OB_BUF_INIT, 0};
    struct call call = call_of(dial);
    fill_lists(dial, &lists);
    bool whole = ob_buf_ok(&lists.host) && ob_buf_ok(&lists.hostaddr) && ob_buf_ok(&lists.port);
    if (whole && lists.count) {
        call_add(&call, "host", ob_buf_text(&lists.host));
        call_add(&call, "hostaddr", ob_buf_text(&lists.hostaddr));
        call_add(&call, "port", ob_buf_text(&lists.port));
    }
    if (whole)
        *conn = start ? PQconnectStartParams(call.keys, call.values, 1) : PQconnectdbParams(call.keys, call.values, 1);
    ob_buf_fini(&lists.host);
    ob_buf_fini(&lists.hostaddr);
    ob_buf_fini(&lists.port);
    if (!*conn)
        return ob_error_nomem(err);
    if (PQstatus(*conn) != CONNECTION_BAD) {
        PQsetNoticeReceiver(*conn, ob_pg_ignore_notice, NULL);
        return OUTBOX_OK;
    }
    enum outbox_code code = ob_pg_connect_failed(*conn, err);
    PQfinish(*conn);
    *conn = NULL;
    return code;
}

static enum outbox_code not_found(const struct ob_pg_dial *dial, struct outbox_error *err)
{
    const struct place *place = &dial->places[0];
    return ob_error_set(err, OUTBOX_UNREACHABLE, "cannot connect: could not translate host name \"%s\" to address: %s",
                        place->host, place->lookup ? "no answer in time" : place->found->reason);
}

enum outbox_code ob_pg_dial_go(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err)
{
    *conn = NULL;
    if (!take_answers(dial))
        return OUTBOX_OK;
    if (dial->count && !any_usable(dial))
        return not_found(dial, err);
    return call_libpq(dial, true, conn, err);
}

enum outbox_code ob_pg_dial_wait(struct ob_pg_dial *dial, PGconn **conn, struct outbox_error *err)
{
    int64_t until_us = ob_clock_boot_us() + (int64_t)dial->seconds * 1000000, left_us = 1;
    *conn = NULL;
    while (!take_answers(dial) && (left_us = until_us - ob_clock_boot_us()) > 0) {
        int64_t patience_us = ob_pg_dial_due_us(dial) - ob_clock_boot_us();
        int64_t wait_us = patience_us < left_us ? patience_us : left_us;
        (void)poll(&(struct pollfd){.fd = dial->fd, .events = POLLIN}, 1, wait_us > 0 ? (int)(wait_us / 1000) + 1 : 0);
    }
    if (dial->count && !any_usable(dial))
        return not_found(dial, err);
    return call_libpq(dial, false, conn, err);
}
