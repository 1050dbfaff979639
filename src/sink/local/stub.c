/* stub.c - a sink that answers what a script says: for tests and for trying configurations out.
 *
 * It can be the receiver in crash tests: each accepted message is one line in its ledger, written with one write(2) before
 * the verdict is given. A line in the ledger means that the receiver has the message.
 *
 * Order: an item that follows waits until the one before it was answered. On the loop's thread; one timer, and a queue
 * in the order of its times, because all deliveries take the same time. */
#include "sink/local/stub.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/uuid.h"
#include "base/value.h"
#include "sink/common/option.h"
#include "sink/local/append.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

extern const struct outbox_sink_ops ob_sink_stub;

struct entry {
    struct ob_list node; /* in waiting or silent */
    uint64_t handle;
    const struct outbox_delivery *msg;
    struct entry *follower; /* waits for this one */
    struct entry *leader;   /* this one waits for it; in no list then */
    int64_t due_us;
};

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct outbox_sink_option *options; /* our own copy */
    struct ob_options get;
    struct ob_list waiting; /* for their time */
    struct ob_list silent;  /* never answered */
    uv_timer_t timer;
    bool closing;
    int ledger, log; /* descriptors; -1: none */
    bool fsync, by_delivery, obey_payload;
    const char *script, *down_file, *output;
    int64_t delay_us, opened_us, deliveries, accepted;
};

static const struct outbox_sink_setting settings[] = {
    {.name = "script",
     .type = OUTBOX_OPTION_TEXT,
     .fallback = "accept",
     .doc = "outcomes, attempt by attempt: `retry*2 accept`. A word is `accept`, `retry`, `limited`, "
            "`terminal`, `blocked`, `unknown`, `not_sent`, `taken` (the receiver has it, the verdict is unknown) or "
            "`silent` (no answer), with `:CODE`, `@SCOPE`, `/PATIENCE`, `!` (unreachable) and `*TIMES` behind it"},
    {.name = "topics", .type = OUTBOX_OPTION_MAP, .doc = "script for one topic"},
    {.name = "count",
     .type = OUTBOX_OPTION_ENUM,
     .choices = "attempts deliveries",
     .fallback = "attempts",
     .doc = "what a script counts: the attempts of each message, or all deliveries of the sink"},
    {.name = "obey_payload",
     .type = OUTBOX_OPTION_BOOL,
     .fallback = "false",
     .doc = "let a payload `{\"stub\": SCRIPT}` choose its own script. For tests only: payloads are not trusted input"},
    {.name = "delay", .type = OUTBOX_OPTION_DURATION, .fallback = "0", .doc = "duration of a delivery"},
    {.name = "down",
     .type = OUTBOX_OPTION_LIST,
     .doc = "time ranges since the start in which the sink is unreachable: `2s-5s`"},
    {.name = "down_file", .type = OUTBOX_OPTION_TEXT, .doc = "file whose existence makes the sink unreachable"},
    {.name = "ledger",
     .type = OUTBOX_OPTION_TEXT,
     .doc = "file that gets a JSON line for each accepted message, before the outcome is reported"},
    {.name = "log",
     .type = OUTBOX_OPTION_TEXT,
     .doc = "file that gets a JSON line for every delivery, with its "
            "outcome"},
    {.name = "fsync", .type = OUTBOX_OPTION_BOOL, .fallback = "false", .doc = "fsync the ledger after each line"},
    {.name = "output", .type = OUTBOX_OPTION_TEXT, .doc = "JSON passed to outcome hooks with each accepted message"},
    {0},
};

/* ---- what is answered ---- */

static bool in_window(const char *window, int64_t now_us)
{
    char from[32];
    int64_t from_us, to_us;
    const char *dash = strchr(window, '-');
    if (!dash || (size_t)(dash - window) >= sizeof from)
        return false;
    memcpy(from, window, (size_t)(dash - window));
    from[dash - window] = '\0';
    return ob_value_duration(from, &from_us) && ob_value_duration(dash + 1, &to_us) && now_us >= from_us &&
           now_us < to_us;
}

static bool is_down(const outbox_sink *sink)
{
    const char *window;
    int64_t since_us = sink->host->now_us(sink->host->ctx) - sink->opened_us;
    for (size_t i = 0; (window = ob_option_next(&sink->get, "down", &i));)
        if (in_window(window, since_us))
            return true;
    return sink->down_file && access(sink->down_file, F_OK) == 0;
}

static const char *topic_script(const outbox_sink *sink, const char *topic)
{
    const char *script, *key;
    for (size_t i = 0; (script = ob_option_below(&sink->get, "topics", &i, &key));)
        if (strcmp(key, topic) == 0)
            return script;
    return sink->script;
}

static bool payload_word(const struct outbox_delivery *msg, int64_t turn, struct ob_stub_word *word)
{
    const char *bad;
    json_t *payload = json_loadb(msg->payload, msg->payload_len, 0, NULL);
    const char *script = json_string_value(json_object_get(payload, "stub"));
    bool found = script && ob_stub_script(script, turn, word, &bad);
    json_decref(payload);
    return found;
}

static void choose(outbox_sink *sink, const struct outbox_delivery *msg, struct ob_stub_word *word)
{
    const char *bad;
    sink->deliveries++;
    int64_t turn = sink->by_delivery ? sink->deliveries : msg->attempt;
    if (is_down(sink))
        *word = (struct ob_stub_word){
            .outcome = OUTBOX_SINK_RETRY, .unreachable = true, .patience_us = -1, .code = "stub_down"};
    else if (!sink->obey_payload || !payload_word(msg, turn, word))
        (void)ob_stub_script(topic_script(sink, msg->topic), turn, word, &bad); /* open has looked at it */
}

/* ---- ledger ---- */

static const char *outcome_name(const struct ob_stub_word *word)
{
    static const char *const names[] = {"accepted", "retry", "limited", "terminal", "blocked", "unknown", "not_sent"};
    return word->silent ? "silent" : word->takes && word->outcome ? "taken" : names[word->outcome];
}

static int write_line(int fd, bool sync, const struct outbox_delivery *msg, const char *outcome)
{
    char id[OB_UUID_TEXT];
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    size_t written;
    outbox_uuid_format(&msg->id, id);
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "id"), ob_json_string(&json, id);
    ob_json_key(&json, "attempt"), ob_json_int(&json, msg->attempt);
    ob_json_key(&json, "namespace"), ob_json_string(&json, msg->name_space);
    ob_json_key(&json, "topic"), ob_json_string(&json, msg->topic);
    ob_json_key(&json, "key"), ob_json_string(&json, msg->key);
    ob_json_key(&json, "seq"), ob_json_int(&json, msg->seq);
    ob_json_key(&json, "time_us"), ob_json_int(&json, ob_clock_wall_us());
    ob_json_key(&json, "outcome"), ob_json_string(&json, outcome);
    ob_json_end(&json);
    ob_buf_putc(&buf, '\n');
    int bad = ob_buf_ok(&buf) ? ob_append(fd, buf.data, buf.len, &written) : ENOMEM;
    if (!bad && sync && fsync(fd))
        bad = errno;
    ob_buf_fini(&buf);
    return bad;
}

/* A ledger that cannot be written is a receiver that cannot take it. */
static void write_down(outbox_sink *sink, const struct outbox_delivery *msg, struct ob_stub_word *word)
{
    int bad = 0;
    if (word->takes && sink->ledger >= 0)
        bad = write_line(sink->ledger, sink->fsync, msg, outcome_name(word));
    if (bad) {
        *word = (struct ob_stub_word){.outcome = OUTBOX_SINK_RETRY, .unreachable = true, .patience_us = -1};
        ob_errno_code("stub", bad, word->code);
    }
    if (sink->log >= 0)
        (void)write_line(sink->log, false, msg, outcome_name(word));
}

/* ---- deliveries ---- */

static void answer_word(outbox_sink *sink, uint64_t handle, const struct ob_stub_word *word)
{
    char reference[32], text[128];
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = word->outcome;
    verdict.scope = word->scope;
    verdict.unreachable = word->unreachable;
    verdict.code = *word->code ? word->code : NULL;
    verdict.not_before_us = word->patience_us;
    if (word->outcome == OUTBOX_SINK_ACCEPTED) {
        snprintf(reference, sizeof reference, "stub-%" PRId64, ++sink->accepted);
        verdict.reference = reference;
        verdict.output = sink->output;
    } else {
        snprintf(text, sizeof text, "the script says %s", outcome_name(word));
        verdict.text = text;
    }
    sink->host->done(sink->host->ctx, handle, &verdict);
}

static void on_timer(uv_timer_t *timer);

static void arm(outbox_sink *sink)
{
    if (ob_list_empty(&sink->waiting) || sink->closing)
        return;
    struct entry *first = OB_CONTAINER(sink->waiting.next, struct entry, node);
    int64_t left_us = first->due_us - sink->host->now_us(sink->host->ctx);
    uv_timer_start(&sink->timer, on_timer, left_us > 0 ? (uint64_t)(left_us + 999) / 1000 : 0, 0);
}

static void entry_begin(outbox_sink *sink, struct entry *entry)
{
    entry->leader = NULL;
    entry->due_us = sink->host->now_us(sink->host->ctx) + sink->delay_us;
    ob_list_push(&sink->waiting, &entry->node);
}

/* What waited for an entry that is gone: it goes on, or it and all behind it are given back. */
static void release(outbox_sink *sink, struct entry *follower, bool accepted)
{
    static const struct ob_stub_word not_sent = {.outcome = OUTBOX_SINK_NOT_SENT, .patience_us = -1};
    if (follower && accepted) {
        entry_begin(sink, follower);
        return;
    }
    while (follower) {
        struct entry *next = follower->follower;
        uint64_t handle = follower->handle;
        ob_free(follower);
        if (next)
            next->leader = NULL;
        answer_word(sink, handle, &not_sent);
        follower = next;
    }
}

/* The entry is out of the list of those that wait. */
static void answer(outbox_sink *sink, struct entry *entry)
{
    struct ob_stub_word word;
    uint64_t handle = entry->handle;
    struct entry *follower = entry->follower;
    choose(sink, entry->msg, &word);
    write_down(sink, entry->msg, &word);
    OB_CRASH_POINT("sent");
    if (word.silent) {
        ob_list_push(&sink->silent, &entry->node);
        return;
    }
    ob_free(entry);
    answer_word(sink, handle, &word);
    release(sink, follower, word.outcome == OUTBOX_SINK_ACCEPTED);
}

/* All that is due. A verdict may bring new deliveries; they take their place at the end. */
static void run_due(outbox_sink *sink)
{
    while (!ob_list_empty(&sink->waiting)) {
        struct entry *first = OB_CONTAINER(sink->waiting.next, struct entry, node);
        if (first->due_us > sink->host->now_us(sink->host->ctx))
            break;
        ob_list_remove(&first->node);
        answer(sink, first);
    }
    arm(sink);
}

static void on_timer(uv_timer_t *timer)
{
    run_due(timer->data);
}

static void stub_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    static const struct ob_stub_word no_memory = {
        .outcome = OUTBOX_SINK_NOT_SENT, .patience_us = -1, .code = "out_of_memory"};
    struct entry *last = NULL; /* still there: nothing is answered before all have their place */
    bool lost = false;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = ob_calloc(1, sizeof *entry);
        if (!items[i].follows)
            lost = false;
        if (!entry || lost) {
            ob_free(entry);
            lost = true;
            answer_word(sink, items[i].handle, &no_memory);
            continue;
        }
        ob_list_init(&entry->node);
        entry->handle = items[i].handle;
        entry->msg = items[i].msg;
        if (items[i].follows && last) {
            last->follower = entry;
            entry->leader = last;
        } else {
            entry_begin(sink, entry);
        }
        last = entry;
    }
    if (sink->delay_us)
        arm(sink);
    else
        uv_timer_start(&sink->timer, on_timer, 0, 0);
}

static struct entry *find(struct ob_list *list, uint64_t handle)
{
    OB_LIST_EACH (it, list) {
        struct entry *entry = OB_CONTAINER(it, struct entry, node);
        do {
            if (entry->handle == handle)
                return entry;
        } while ((entry = entry->follower));
    }
    return NULL;
}

static void stub_cancel(outbox_sink *sink, uint64_t handle)
{
    struct entry *entry = find(&sink->waiting, handle);
    if (!entry)
        entry = find(&sink->silent, handle);
    if (!entry)
        return;
    struct entry *follower = entry->follower;
    if (entry->leader)
        entry->leader->follower = NULL;
    ob_list_remove(&entry->node);
    ob_free(entry);
    release(sink, follower, false);
}

static void stub_ping(outbox_sink *sink, uint64_t handle)
{
    struct ob_stub_word word = {.outcome = OUTBOX_SINK_ACCEPTED, .patience_us = -1};
    if (is_down(sink))
        word = (struct ob_stub_word){
            .outcome = OUTBOX_SINK_RETRY, .unreachable = true, .patience_us = -1, .code = "stub_down"};
    answer_word(sink, handle, &word);
}

/* ---- open and close ---- */

static void free_all(struct ob_list *list)
{
    struct ob_list *node;
    while ((node = ob_list_shift(list)))
        for (struct entry *entry = OB_CONTAINER(node, struct entry, node), *next; entry; entry = next) {
            next = entry->follower;
            ob_free(entry);
        }
}

static void free_sink(outbox_sink *sink)
{
    for (size_t i = 0; sink->options && i < sink->get.count; i++) {
        ob_free((void *)(uintptr_t)sink->options[i].name);
        ob_free((void *)(uintptr_t)sink->options[i].value);
    }
    ob_free(sink->options);
    if (sink->ledger >= 0)
        close(sink->ledger);
    if (sink->log >= 0)
        close(sink->log);
    ob_free(sink);
}

static void on_closed(uv_handle_t *handle)
{
    free_sink(handle->data);
}

static void stub_close(outbox_sink *sink)
{
    if (!sink)
        return;
    sink->closing = true;
    free_all(&sink->waiting);
    free_all(&sink->silent);
    uv_close((uv_handle_t *)&sink->timer, on_closed);
}

static enum outbox_code copy_options(outbox_sink *sink, const struct outbox_sink_option *options, size_t count,
                                     struct outbox_error *err)
{
    sink->options = ob_calloc(count + 1, sizeof *sink->options);
    if (!sink->options)
        return ob_error_nomem(err);
    sink->get = (struct ob_options){sink->options, count, settings};
    for (size_t i = 0; i < count; i++) {
        sink->options[i].name = ob_strdup(options[i].name);
        sink->options[i].value = ob_strdup(options[i].value);
        if (!sink->options[i].name || !sink->options[i].value)
            return ob_error_nomem(err);
    }
    return OUTBOX_OK;
}

static enum outbox_code check_scripts(const outbox_sink *sink, struct outbox_error *err)
{
    struct ob_stub_word word;
    const char *bad = sink->script, *key, *script = sink->script;
    bool ok = ob_stub_script(script, INT64_MAX, &word, &bad);
    for (size_t i = 0; ok && (script = ob_option_below(&sink->get, "topics", &i, &key));)
        ok = ob_stub_script(script, INT64_MAX, &word, &bad);
    if (ok)
        return OUTBOX_OK;
    return ob_error_set(err, OUTBOX_INVALID, "the script is wrong at \"%.60s\"; a word is OUTCOME[:CODE][@SCOPE]%s",
                        bad,
                        "[/PATIENCE][!][*TIMES], and OUTCOME is accept, retry, limited, terminal, blocked, unknown, "
                        "not_sent, taken or silent");
}

static enum outbox_code open_file(const outbox_sink *sink, const char *name, int *fd, struct outbox_error *err)
{
    const char *path = ob_option_text(&sink->get, name);
    if (!path)
        return OUTBOX_OK;
    *fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    return *fd >= 0 ? OUTBOX_OK : ob_error_set(err, OUTBOX_INVALID, "%s %s: %s", name, path, strerror(errno));
}

static enum outbox_code stub_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    outbox_sink *sink = ob_calloc(1, sizeof *sink);
    if (!sink)
        return ob_error_nomem(err);
    sink->host = host;
    sink->ledger = sink->log = -1;
    ob_list_init(&sink->waiting);
    ob_list_init(&sink->silent);
    enum outbox_code code = copy_options(sink, options, count, err);
    if (code)
        goto done;
    sink->script = ob_option_string(&sink->get, "script");
    sink->down_file = ob_option_text(&sink->get, "down_file");
    sink->output = ob_option_text(&sink->get, "output");
    sink->by_delivery = ob_option_is(&sink->get, "count", "deliveries");
    sink->obey_payload = ob_option_bool(&sink->get, "obey_payload");
    sink->fsync = ob_option_bool(&sink->get, "fsync");
    sink->delay_us = ob_option_int(&sink->get, "delay");
    sink->opened_us = host->now_us(host->ctx);
    code = check_scripts(sink, err);
    if (!code)
        code = open_file(sink, "ledger", &sink->ledger, err);
    if (!code)
        code = open_file(sink, "log", &sink->log, err);
    if (!code && uv_timer_init(host->loop, &sink->timer))
        code = ob_error_nomem(err);
    sink->timer.data = sink;
done:
    if (code)
        free_sink(sink);
    else
        *out = sink;
    return code;
}

const struct outbox_sink_ops ob_sink_stub = {
    OUTBOX_SINK_OPS_HEAD,
    .kind = "stub",
    .keeps_order = true,
    .open = stub_open,
    .deliver = stub_deliver,
    .cancel = stub_cancel,
    .close = stub_close,
    .settings = settings,
    .ping = stub_ping,
    .descriptors = 4,
    .summary = "outcomes from a script, for tests",
    .protocol = "local",
};
