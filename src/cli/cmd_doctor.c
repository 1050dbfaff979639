/* cmd_doctor.c - checks whether the configuration, each store and each sink are ready for a relay. Changes nothing, sends
 * nothing. Every problem is printed with what to do about it. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "config/route.h"
#include "config/sink_ping.h"
#include "lib/migrate.h"

#include <signal.h>
#include <string.h>

enum { PROBE_US = 10000000, RIGHTS_MOST = 20, NAMED_MOST = 5, PARTITIONS_MANY = 100, LATE_S = 60, FAILED_MANY = 5 };

enum finding { GOOD, NOTE, BAD };

struct exam {
    struct ob_cli *cli;
    struct ob_json json;
    struct ob_buf buf;
    int notes, bad;
};

static void find(struct exam *exam, enum finding finding, const char *what, const char *name, const char *text,
                 const char *todo)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    static const enum ob_color colors[] = {OB_COLOR_GREEN, OB_COLOR_YELLOW, OB_COLOR_RED};
    exam->notes += finding == NOTE;
    exam->bad += finding == BAD;
    if (exam->cli->args.json) {
        ob_json_object(&exam->json);
        ob_json_text(&exam->json, "level", finding == GOOD ? "ok" : finding == NOTE ? "warning" : "error");
        ob_json_text(&exam->json, "what", what);
        ob_json_text(&exam->json, "name", name);
        ob_json_text(&exam->json, "text", text);
        ob_json_text(&exam->json, "todo", todo);
        ob_json_end(&exam->json);
        return;
    }
    ob_say_text(exam->cli, words[finding], 5, colors[finding]);
    printf("%-6s ", what);
    ob_say_text(exam->cli, name, 18, OB_COLOR_BOLD);
    putchar(' ');
    ob_say_text(exam->cli, text, 0, OB_COLOR_NONE);
    putchar('\n');
    if (todo) {
        printf("%32s", "-> ");
        ob_say_text(exam->cli, todo, 0, OB_COLOR_NONE);
        putchar('\n');
    }
}

/* ---- stores ---- */

static void count_pending(void *ctx, const struct ob_migration_row *row)
{
    int *states = ctx;
    states[row->state]++;
}

static bool keep_total(void *ctx, const struct ob_gauges_row *row)
{
    if (!row->name_space)
        *(struct ob_gauges_row *)ctx = *row;
    return true;
}

/* Topics with the same problem. A topic without a route is not claimed, so it causes no failure anywhere: only this check
 * reports it. */
struct topics {
    struct ob_buf names;
    int count;
    int64_t messages;
};

struct queue {
    const struct ob_config *config;
    const struct ob_relays *relays;
    size_t alive;
    struct topics unserved, unrouted, late, dying;
    double oldest_s;
};

static void add_topic(struct topics *topics, const struct ob_status_row *row, int64_t messages)
{
    topics->messages += messages;
    if (topics->count++ < NAMED_MOST)
        ob_buf_printf(&topics->names, "%s%s/%s", topics->count > 1 ? ", " : "", row->name_space, row->topic);
}

static bool look_at_topic(void *ctx, const struct ob_status_row *row)
{
    struct queue *queue = ctx;
    if (row->pending && queue->alive > 0 && !ob_relays_serve(queue->relays, row->name_space, row->topic))
        add_topic(&queue->unserved, row, row->pending);
    else if (row->pending && queue->config->sink_count > 0 && /* having none is reported already */
             ob_route_lane(queue->config, row->name_space, row->topic) == OB_ROUTE_NONE)
        add_topic(&queue->unrouted, row, row->pending);
    if (row->oldest_undelivered_s > LATE_S && !row->paused) {
        add_topic(&queue->late, row, row->pending + row->processing);
        queue->oldest_s = row->oldest_undelivered_s > queue->oldest_s ? row->oldest_undelivered_s : queue->oldest_s;
    }
    if (row->dead_last_hour)
        add_topic(&queue->dying, row, row->dead_last_hour);
    return true;
}

static void tell_topics(struct exam *exam, enum finding finding, const char *what, const char *store,
                        struct topics *topics, const char *text, const char *todo)
{
    struct ob_buf line = OB_BUF_INIT;
    if (topics->count) {
        ob_buf_printf(&line, "%lld %s in %d topic%s: %s%s", (long long)topics->messages, text, topics->count,
                      topics->count == 1 ? "" : "s", ob_buf_text(&topics->names),
                      topics->count > NAMED_MOST ? " ..." : "");
        find(exam, finding, what, store, ob_buf_text(&line), todo);
    }
    ob_buf_fini(&line);
    ob_buf_fini(&topics->names);
}

static void look_at_queue(struct exam *exam, const struct ob_config *config, const char *name, struct ob_store *store,
                          const struct ob_relays *relays)
{
    struct queue queue = {.config = config, .relays = relays, .alive = ob_relays_alive(relays)};
    struct outbox_error err = {0};
    char late[120], age[32];
    bool drained = ob_relays_deliver(relays);
    if (store->ops->status(store, look_at_topic, &queue, &err))
        find(exam, BAD, "store", name, err.text, ob_code_todo(err.code));
    ob_age_text(queue.oldest_s, age);
    snprintf(late, sizeof late, "undelivered%s, the oldest for %s,", drained ? "" : " and no relay delivers them", age);
    tell_topics(exam, drained ? NOTE : BAD, "relay", name, &queue.late, late,
                drained           ? "to see why: outbox status, outbox explain ID"
                : queue.alive > 0 ? "the relays are disabled: outbox tune enabled on"
                                  : "no relay is running: start one with: outbox run");
    tell_topics(exam, BAD, "routes", name, &queue.unserved, "pending that no running relay has a route for,",
                "add a route to the configuration of a relay, and reload it");
    tell_topics(exam, NOTE, "routes", name, &queue.unrouted, "pending without a matching route in this configuration,",
                "add a route, unless another relay has one");
    tell_topics(exam, BAD, "dead", name, &queue.dying, "dead letters since an hour ago,",
                "to see why: outbox list --status dead; then retry or discard them");
}

/* A sink that a running relay cannot deliver to: its own ping below may well succeed. */
static void look_at_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct exam *exam = ctx;
    struct ob_buf text = OB_BUF_INIT;
    bool open = strcmp(sink->breaker, "closed") != 0;
    if (!open && sink->failed < FAILED_MANY)
        return;
    ob_buf_printf(&text, "at the relay %s: ", sink->relay ? sink->relay : "");
    if (open)
        ob_buf_printf(&text, "breaker %s (%s)%s%.20s; ", sink->breaker, sink->cause ? sink->cause : "",
                      sink->since ? " since " : "", sink->since ? sink->since : "");
    ob_buf_printf(&text, "%lld attempts failed since the last delivery%s%s%s%s", (long long)sink->failed,
                  sink->code ? ": " : "", sink->code ? sink->code : "", sink->error ? ": " : "",
                  sink->error ? sink->error : "");
    find(exam, BAD, "sink", sink->name, ob_buf_text(&text), "fix the receiver, or pause it: outbox pause --sink NAME");
    ob_buf_fini(&text);
}

static void look_for_pauses(struct exam *exam, const char *name, struct ob_store *store)
{
    struct ob_pauses pauses;
    struct outbox_error err = {0};
    struct ob_buf text = OB_BUF_INIT;
    if (ob_pauses_read(store, &pauses, &err))
        find(exam, BAD, "store", name, err.text, ob_code_todo(err.code));
    for (size_t i = 0; i < pauses.count; i++) {
        ob_buf_puts(&text, i ? "; " : "");
        ob_pause_text(&text, &pauses.items[i]);
        ob_by_text(&text, pauses.items[i].actor, pauses.items[i].reason, pauses.items[i].at_us);
    }
    if (pauses.count)
        find(exam, NOTE, "pauses", name, ob_buf_text(&text), "to resume: outbox resume with the same options");
    ob_buf_fini(&text);
    ob_pauses_fini(&pauses);
}

/* Problems are listed one by one, missing rights up to a limit. */
struct rights {
    struct exam *exam;
    const char *store;
    int count;
};

static void tell_right(void *ctx, const char *problem, const char *fix)
{
    struct rights *rights = ctx;
    if (rights->count++ < RIGHTS_MOST)
        find(rights->exam, BAD, "rights", rights->store, problem, fix);
}

static void look_for_rights(struct exam *exam, const char *name, struct ob_store *store)
{
    struct rights rights = {exam, name, 0};
    struct outbox_error err = {0};
    char text[80];
    if (!store->ops->rights)
        return;
    if (store->ops->rights(store, tell_right, &rights, &err)) {
        find(exam, BAD, "rights", name, err.text, ob_code_todo(err.code));
    } else if (rights.count > RIGHTS_MOST) {
        snprintf(text, sizeof text, "%d more rights differ", rights.count - RIGHTS_MOST);
        find(exam, BAD, "rights", name, text, "to list them all: select problem, fix from SCHEMA.wrong_rights()");
    }
}

static void tell_problem(void *ctx, const char *problem, const char *fix)
{
    struct rights *log = ctx;
    find(log->exam, NOTE, "log", log->store, problem, fix);
}

static void look_for_log(struct exam *exam, const char *name, struct ob_store *store)
{
    struct rights log = {exam, name, 0};
    struct outbox_error err = {0};
    if (store->ops->log_problems && store->ops->log_problems(store, tell_problem, &log, &err))
        find(exam, BAD, "log", name, err.text, ob_code_todo(err.code));
}

/* Where new messages wait for their first attempt: of all, and of namespaces that differ. */
static bool tell_lane(void *ctx, const char *name_space, const char *name, const char *value)
{
    struct ob_buf *text = ctx;
    if (strcmp(name, "lane") == 0 && value)
        ob_buf_printf(text, strcmp(name_space, "*") == 0 ? "; lane %.0s%s" : ", of %s %s", name_space, value);
    return true;
}

static void look_inside(struct exam *exam, const char *name, struct ob_store *store, const struct ob_relays *known)
{
    struct ob_gauges_row total = {0};
    struct outbox_error err = {0};
    struct ob_buf lanes = OB_BUF_INIT;
    char text[500], age[32];
    int relays = (int)ob_relays_alive(known);
    if (store->ops->gauges(store, keep_total, &total, &err) ||
        (store->ops->log_problems && store->ops->settings(store, tell_lane, &lanes, &err))) {
        find(exam, BAD, "store", name, err.text, ob_code_todo(err.code));
        ob_buf_fini(&lanes);
        return;
    }
    ob_age_text(total.oldest_due_s, age);
    snprintf(text, sizeof text, "%lld pending, oldest due for %s; %lld dead; %d relay%s running%.300s",
             (long long)total.pending, total.due ? age : "0 s", (long long)total.dead, relays, relays == 1 ? "" : "s",
             ob_buf_text(&lanes));
    ob_buf_fini(&lanes);
    bool late = total.oldest_due_s > 60;
    find(exam, late || total.dead ? NOTE : GOOD, "store", name, text,
         late         ? relays ? "messages are waiting too long: check the sinks below, and outbox status"
                               : "no relay is running: start one with: outbox run"
         : total.dead ? "retry or discard the dead letters: outbox list --status dead"
                      : NULL);
    if (total.partitions > PARTITIONS_MANY) {
        snprintf(text, sizeof text, "%lld partitions: lists and views become slow and may run out of locks (53200)",
                 (long long)total.partitions);
        find(exam, NOTE, "retention", name, text,
             "run outbox purge, shorten the retention time, or raise max_locks_per_transaction");
    }
}

/* With read-only rights all other checks pass, but nothing can be delivered. So we renew the lease of a message that
 * cannot exist: that needs the rights of a relay and a writable store, and changes nothing. */
static bool may_deliver(struct ob_store *store, struct outbox_error *err)
{
    struct outbox_settle nothing = {.token = 1};
    return store->ops->extend(store, &nothing, 1, 1000000, err) == OUTBOX_OK;
}

static void examine_store(struct exam *exam, const struct ob_config *config, const struct ob_config_store *set)
{
    struct ob_open options = {.schema = set->schema, .application = "outbox doctor"};
    struct outbox_error err = {0};
    int states[OB_MIGRATION_NEWER + 1] = {0};
    struct ob_store *store = NULL;
    if (ob_store_migrate_status(set->url, &options, count_pending, states, &err)) {
        bool said =
            err.code == OUTBOX_UNREACHABLE && ob_url_kind(set->url) == OB_URL_SQLITE; /* the text says what to do */
        find(exam, BAD, "store", set->name, err.text, said ? NULL : ob_code_todo(err.code));
        return;
    }
    if (states[OB_MIGRATION_PENDING] || states[OB_MIGRATION_DRIFTED] || states[OB_MIGRATION_NEWER]) {
        char text[160];
        snprintf(text, sizeof text,
                 "schema does not match this version: %d migrations to apply, %d changed by hand, %d newer",
                 states[OB_MIGRATION_PENDING], states[OB_MIGRATION_DRIFTED], states[OB_MIGRATION_NEWER]);
        find(exam, BAD, "store", set->name, text,
             states[OB_MIGRATION_NEWER]     ? "use the newer version of outbox"
             : states[OB_MIGRATION_DRIFTED] ? "for details: outbox migrate --status"
                                            : "run: outbox migrate");
        return;
    }
    if (ob_store_open(set->url, &options, &store, &err)) {
        find(exam, BAD, "store", set->name, err.text, ob_code_todo(err.code));
        return;
    }
    if (!may_deliver(store, &err)) {
        find(exam, BAD, "store", set->name, err.text, ob_code_todo(err.code));
        store->ops->close(store);
        return;
    }
    struct ob_relays *relays = NULL;
    if (ob_relays_read(store, &relays, &err)) {
        find(exam, BAD, "store", set->name, err.text, ob_code_todo(err.code));
        ob_relays_free(relays);
        store->ops->close(store);
        return;
    }
    look_inside(exam, set->name, store, relays);
    look_for_log(exam, set->name, store);
    look_for_rights(exam, set->name, store);
    look_for_pauses(exam, set->name, store);
    look_at_queue(exam, config, set->name, store, relays);
    ob_relays_sinks(relays, look_at_sink, exam);
    ob_relays_free(relays);
    store->ops->close(store);
}

/* ---- sinks ---- */

/* Never NULL: every problem comes with what to do. */
static const char *todo_for(const struct outbox_verdict *verdict)
{
    if (verdict->unreachable)
        return "check that it is running and reachable from this machine";
    switch (verdict->outcome) {
    case OUTBOX_SINK_BLOCKED: return "check its settings in the configuration: address, path, credentials";
    case OUTBOX_SINK_LIMITED: return "it limits the rate: lower rate or concurrency, or wait";
    case OUTBOX_SINK_TERMINAL: return "check its settings in the configuration";
    case OUTBOX_SINK_UNKNOWN:
        return "a different service answered: check the address in the configuration, and proxies in between";
    case OUTBOX_SINK_NOT_SENT: return "this machine is out of memory or descriptors: see ulimit -a";
    default:
        return "may be temporary: run doctor again; if it persists, check the settings in the configuration, or "
               "ask the receiver's operator";
    }
}

static void on_probe(void *ctx, const struct ob_ping *probe)
{
    struct exam *exam = ctx;
    const struct outbox_verdict *verdict = probe->verdict;
    char text[600];
    switch (probe->state) {
    case OB_PING_WELL:
        snprintf(text, sizeof text, "%s: %s", probe->sink->kind, verdict->text ? verdict->text : "accepts messages");
        find(exam, GOOD, "sink", probe->sink->name, text, NULL);
        break;
    case OB_PING_SICK:
        snprintf(text, sizeof text, "%s: %s%s%s", probe->sink->kind, verdict->code ? verdict->code : "not well",
                 verdict->text ? ": " : "", verdict->text ? verdict->text : "");
        find(exam, BAD, "sink", probe->sink->name, text, todo_for(verdict));
        break;
    case OB_PING_CLOSED:
        snprintf(text, sizeof text, "%s: cannot be opened: %s", probe->sink->kind, probe->error);
        find(exam, BAD, "sink", probe->sink->name, text, "check its settings in the configuration");
        break;
    case OB_PING_SILENT:
        snprintf(text, sizeof text, "%s: no answer within %d s", probe->sink->kind, PROBE_US / 1000000);
        find(exam, BAD, "sink", probe->sink->name, text, "check that it is running and reachable from this machine");
        break;
    default:
        snprintf(text, sizeof text, "%s: cannot be checked without sending a message", probe->sink->kind);
        find(exam, NOTE, "sink", probe->sink->name, text, NULL);
        break;
    }
}

/* ---- traces ---- */

/* A request without spans: a collector accepts it, and keeps nothing. */
static enum outbox_code ask_collector(const struct ob_config_traces *traces, struct ob_post_answer *answer,
                                      struct outbox_error *err)
{
    char *url = NULL;
    struct ob_post *post = NULL;
    enum outbox_code code = ob_post_url(traces->endpoint, &url, err);
    struct ob_post_settings settings = {.url = url,
                                        .headers = traces->headers,
                                        .header_count = traces->header_count,
                                        .ca = traces->ca,
                                        .timeout_us = traces->timeout_us < PROBE_US ? traces->timeout_us : PROBE_US};
    if (!code)
        code = ob_post_open(&settings, &post, err);
    if (!code)
        ob_post_send(post, (const struct ob_post_part[2]){{"", 0}, {"", 0}}, NULL, NULL, answer);
    ob_post_close(post);
    ob_free(url);
    return code;
}

static void examine_traces(struct exam *exam, const struct ob_config_traces *traces)
{
    struct ob_post_answer answer;
    struct outbox_error err = {0};
    if (!traces->endpoint)
        return;
    if (ask_collector(traces, &answer, &err))
        find(exam, BAD, "traces", "traces.endpoint", err.text, "check the section traces of the configuration");
    else if (answer.outcome == OB_POST_ACCEPTED)
        find(exam, GOOD, "traces", "traces.endpoint", "the collector accepts spans", NULL);
    else
        find(exam, BAD, "traces", "traces.endpoint", answer.text,
             answer.outcome == OB_POST_AGAIN
                 ? "check that the collector is running and reachable; until then spans are dropped, messages are not"
                 : "check the path of traces.endpoint and traces.headers");
}

/* Reports the errors of the configuration; the rest is checked all the same. */
static void examine_config(struct exam *exam, const struct ob_config_input *input, const struct ob_config *config,
                           const struct ob_config_report *report)
{
    bool idle = config->sink_count == 0; /* valid for other commands, but a relay does not start */
    for (const struct ob_config_problem *problem = report->first; problem; problem = problem->next) {
        struct ob_buf line = OB_BUF_INIT;
        if (idle && problem->key && strcmp(problem->key, "sinks") == 0)
            continue; /* reported below */
        ob_config_problem_text(problem, &line);
        find(exam, problem->error ? BAD : NOTE, "config", input->path ? input->path : "(no file)", ob_buf_text(&line),
             problem->error ? "correct it, then run: outbox validate" : NULL);
        ob_buf_fini(&line);
    }
    if (idle && report->errors == 0)
        find(exam, NOTE, "config", input->path ? input->path : "(no file)", "has no sinks: a relay needs at least one",
             "for a starting point: outbox config --sample > outbox.yaml");
    else if (report->errors == 0)
        find(exam, GOOD, "config", input->path ? input->path : "(no file)", "can be used", NULL);
}

static enum outbox_code examine(struct exam *exam, const struct ob_config *config)
{
    for (size_t i = 0; i < config->store_count; i++)
        if (!config->stores[i].broken)
            examine_store(exam, config, &config->stores[i]);
    examine_traces(exam, &config->traces);
    return ob_ping_sinks(config, PROBE_US, on_probe, exam, &exam->cli->err);
}

int cmd_doctor(struct ob_cli *cli)
{
    struct exam exam = {.cli = cli};
    struct ob_config_input input = ob_cli_config_input(cli, NULL);
    struct ob_config *config = NULL;
    struct ob_config_report report;
    input.partial = true;
    (void)!ob_config_load(&input, &config, &report); /* errors are in the report */
    signal(SIGPIPE, SIG_IGN);
    ob_json_init(&exam.json, &exam.buf);
    ob_json_object(&exam.json);
    ob_json_key(&exam.json, "findings");
    ob_json_array(&exam.json);
    if (config)
        examine_config(&exam, &input, config, &report);
    ob_config_report_fini(&report);
    enum outbox_code code = config ? examine(&exam, config) : ob_error_nomem(&cli->err);
    ob_json_end(&exam.json);
    ob_json_key(&exam.json, "ok"), ob_json_bool(&exam.json, exam.bad == 0);
    ob_json_count(&exam.json, "errors", exam.bad);
    ob_json_count(&exam.json, "warnings", exam.notes);
    ob_json_end(&exam.json);
    if (!code && cli->args.json)
        ob_say_json(&exam.buf);
    else
        ob_buf_fini(&exam.buf);
    ob_config_free(config);
    if (code)
        return ob_cli_fail(cli);
    if (exam.bad && !cli->args.json)
        ob_cli_note(cli, "%d problem%s found.", exam.bad, exam.bad == 1 ? "" : "s");
    return exam.bad ? OB_EXIT_UNHEALTHY : OB_EXIT_OK;
}
