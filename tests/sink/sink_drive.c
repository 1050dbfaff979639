/* sink_drive.c - drives one adapter from a script, so that tests in any language can put it before a real server.
 *
 *     sink-drive --kind http --set url=http://127.0.0.1:8080/hook --set timeout=2s < script
 *
 *   --kind KIND          the adapter, or the path of a shared object (with a '/')
 *   --set NAME=VALUE     an option, as a configuration has it (flat, dotted: tls.ca=PATH); again for each element of a list
 *   --out FD             where verdicts go instead of stdout, for a sink that writes there itself
 *   --describe           prints the adapter's settings instead: {"name", "type", "choices", "fallback", "required",
 *                        "secret", "doc"} a line
 *   --deadline MS        how long to wait for verdicts after the end of the script (default 10000)
 *
 * The script is one JSON object a line, read as it comes, so a test may hold the pipe open and go step by step:
 *
 *   {"topic": "orders.paid", "payload": {...}}    a message. Further: namespace, key, seq, id, headers (an object),
 *                                                 recipient, subject, tenant, dedupe_key, correlation_id, content_type,
 *                                                 attempt, redriven, created_at_us, follows; "payload_text" instead of
 *                                                 payload: the text itself; "payload_hex": bytes; "repeat": n times
 *   {"batch": [{...}, ...]}                       messages for one call of deliver
 *   {"cancel": n}                                 of handle n
 *   {"ping": true}
 *   {"wait": true}                                reads on when all is answered
 *   {"sleep_ms": n}                               reads on later, with the loop running
 *   {"skip_ms": n}                                the host's clock jumps ahead
 *   {"close": true}                               closes the sink without waiting for verdicts
 *
 * Messages and pings have the handles 1, 2, ... in the order of the script. Every verdict is a line on stdout:
 *
 *   {"handle": 1, "outcome": "retry", "code": "http_503", "text": "...", "scope": "message", "unreachable": false,
 *    "local": false, "not_before_ms": 1000, "reference": null, "output": null, "elapsed_ms": 3}
 *
 * with "cancelled" or "stray" true for an answer after a cancel, or to nothing. not_before_ms is null when the sink did
 * not say. Lines that the sink logs go to stderr, as "LEVEL TEXT". {"opened": KIND} is the first line.
 *
 * Exit: 0 all answered; 1 a bad script; 2 the sink did not open, with {"error": CODE, "text": ...}; 3 some verdicts did
 * not come, with a line {"handle": n, "outcome": "unanswered"} each; 4 the sink left something in the loop. */
#include "harness.h"

#include "sink/registry.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_OPTIONS = 64 };

struct drive {
    struct harness *h;
    const char *kind;
    struct outbox_sink_option options[MAX_OPTIONS];
    size_t option_count;
    int64_t deadline_ms;
    uint64_t handles; /* given out */
    char *text;       /* what was read and not yet used */
    size_t len, room;
    bool stop, describe;
};

static FILE *out;

static void fail(const char *what, const char *line)
{
    fprintf(stderr, "sink-drive: %s: %s\n", what, line);
    exit(1);
}

static void say(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_ENCODE_ANY);
    fprintf(out, "%s\n", text ? text : "{\"error\":\"not UTF-8\"}");
    fflush(out);
    free(text);
    json_decref(object);
}

static json_t *text_or_null(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    return value ? value : json_string("(not UTF-8)");
}

static void say_verdict(void *ctx, const struct harness_verdict *v)
{
    static const char *const scopes[] = {"message", "recipient", "sink"};
    json_t *object = json_object();
    (void)ctx;
    json_object_set_new(object, "handle", json_integer((json_int_t)v->handle));
    json_object_set_new(object, "outcome", json_string(harness_outcome_name(v->outcome)));
    json_object_set_new(object, "code", text_or_null(v->code));
    json_object_set_new(object, "text", text_or_null(v->text));
    json_object_set_new(object, "scope", json_string((unsigned)v->scope < 3 ? scopes[v->scope] : "none of the scopes"));
    json_object_set_new(object, "unreachable", json_boolean(v->unreachable));
    json_object_set_new(object, "local", json_boolean(v->local));
    json_object_set_new(object, "not_before_ms",
                        v->not_before_us < 0 ? json_null() : json_integer(v->not_before_us / 1000));
    json_object_set_new(object, "reference", text_or_null(v->reference));
    json_object_set_new(object, "output", text_or_null(v->output));
    json_object_set_new(object, "elapsed_ms", json_integer(v->elapsed_us / 1000));
    if (v->cancelled)
        json_object_set_new(object, "cancelled", json_true());
    if (v->stray)
        json_object_set_new(object, "stray", json_true());
    say(object);
}

static void say_log(void *ctx, enum outbox_log_level level, const char *text)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    (void)ctx;
    fprintf(stderr, "%s %s\n", (unsigned)level < 4 ? names[level] : "?", text);
}

/* ---- messages ---- */

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static int64_t number_of(const json_t *object, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static char *unhex(const char *hex, size_t *len)
{
    *len = strlen(hex) / 2;
    char *bytes = calloc(*len + 1, 1);
    for (size_t i = 0; bytes && i < *len; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            fail("payload_hex is wrong", hex);
        bytes[i] = (char)byte;
    }
    return bytes;
}

/* To be freed; *len is its length. */
static char *payload_of(const json_t *object, size_t *len)
{
    const char *hex = text_of(object, "payload_hex");
    const json_t *text = json_object_get(object, "payload_text"), *payload = json_object_get(object, "payload");
    if (hex)
        return unhex(hex, len);
    char *bytes = text ? strdup(json_string_value(text)) : json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!bytes)
        bytes = strdup("{}");
    *len = bytes ? strlen(bytes) : 0;
    return bytes;
}

static void read_message(const json_t *object, struct outbox_delivery *msg, char **headers)
{
    const json_t *value = json_object_get(object, "headers");
    const char *id = text_of(object, "id"), *space = text_of(object, "namespace");
    *headers = json_is_object(value) ? json_dumps(value, JSON_COMPACT)
               : value               ? strdup(json_string_value(value))
                                     : NULL;
    *msg = (struct outbox_delivery){.size = sizeof *msg,
                                    .name_space = space ? space : "default",
                                    .topic = text_of(object, "topic"),
                                    .tenant_id = text_of(object, "tenant"),
                                    .key = text_of(object, "key"),
                                    .seq = number_of(object, "seq", 0),
                                    .dedupe_key = text_of(object, "dedupe_key"),
                                    .subject = text_of(object, "subject"),
                                    .recipient = text_of(object, "recipient"),
                                    .headers = *headers,
                                    .correlation_id = text_of(object, "correlation_id"),
                                    .content_type = text_of(object, "content_type"),
                                    .priority = 4,
                                    .attempt = (int)number_of(object, "attempt", 1),
                                    .spent = (int)number_of(object, "attempt", 1),
                                    .max_attempts = 5,
                                    .redriven = json_is_true(json_object_get(object, "redriven")),
                                    .created_at_us = number_of(object, "created_at_us", 0)};
    msg->payload = payload_of(object, &msg->payload_len);
    if (id && !outbox_uuid_parse(id, &msg->id))
        fail("id is no uuid", id);
}

static void send_batch(struct drive *drive, json_t *array)
{
    size_t count = json_array_size(array);
    struct outbox_delivery *msgs = calloc(count + 1, sizeof *msgs);
    char **headers = calloc(count + 1, sizeof *headers);
    bool *follows = calloc(count + 1, sizeof *follows);
    if (!msgs || !headers || !follows)
        abort();
    for (size_t i = 0; i < count; i++) {
        json_t *object = json_array_get(array, i);
        read_message(object, &msgs[i], &headers[i]);
        follows[i] = json_is_true(json_object_get(object, "follows"));
    }
    drive->handles = harness_send_many(drive->h, msgs, follows, count) + count - 1;
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)msgs[i].payload);
        free(headers[i]);
    }
    free(msgs);
    free(headers);
    free(follows);
}

static void send_one(struct drive *drive, json_t *object)
{
    for (int64_t n = number_of(object, "repeat", 1); n > 0; n--) {
        json_t *array = json_pack("[O]", object);
        send_batch(drive, array);
        json_decref(array);
    }
}

/* ---- the script ---- */

static void unanswered(struct drive *drive)
{
    for (uint64_t handle = 1; handle <= drive->handles; handle++)
        if (!harness_verdict(drive->h, handle))
            say(json_pack("{s:I, s:s}", "handle", (json_int_t)handle, "outcome", "unanswered"));
}

static void run_line(struct drive *drive, const char *line)
{
    json_error_t bad;
    json_t *object = json_loads(line, 0, &bad);
    if (!json_is_object(object))
        fail("not a JSON object", line);
    if (json_object_get(object, "cancel"))
        harness_cancel(drive->h, (uint64_t)number_of(object, "cancel", 0));
    else if (json_object_get(object, "probe"))
        drive->handles = harness_ping(drive->h);
    else if (json_object_get(object, "wait"))
        drive->stop = !harness_wait(drive->h, drive->deadline_ms);
    else if (json_object_get(object, "sleep_ms"))
        harness_run(drive->h, number_of(object, "sleep_ms", 0));
    else if (json_object_get(object, "skip_ms"))
        harness_skip(drive->h, number_of(object, "skip_ms", 0));
    else if (json_object_get(object, "close"))
        drive->stop = true;
    else if (json_object_get(object, "batch"))
        send_batch(drive, json_object_get(object, "batch"));
    else if (text_of(object, "topic"))
        send_one(drive, object);
    else
        fail("neither a message nor a command", line);
    json_decref(object);
}

/* Whole lines out of what was read. */
static void run_text(struct drive *drive)
{
    char *newline;
    size_t used = 0;
    while (!drive->stop && (newline = memchr(drive->text + used, '\n', drive->len - used))) {
        char *line = drive->text + used;
        *newline = '\0';
        used = (size_t)(newline + 1 - drive->text);
        if (*line)
            run_line(drive, line);
    }
    drive->len -= used;
    memmove(drive->text, drive->text + used, drive->len);
}

/* A line has come, or the end of the script: the loop is told, and the line is read outside of it, because a line may
 * run the loop itself. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_stop(poll->loop);
    uv_poll_stop(poll);
}

/* False at the end. */
static bool read_more(struct drive *drive)
{
    if (drive->room - drive->len < 65536) {
        drive->room = drive->room * 2 + 65536;
        drive->text = realloc(drive->text, drive->room + 1);
        if (!drive->text)
            abort();
    }
    ssize_t got = read(STDIN_FILENO, drive->text + drive->len, drive->room - drive->len);
    if (got > 0)
        drive->len += (size_t)got;
    else if (drive->len && drive->text[drive->len - 1] != '\n')
        drive->text[drive->len++] = '\n'; /* the last line may lack it */
    run_text(drive);
    return got > 0 && !drive->stop;
}

static void run_script(struct drive *drive)
{
    uv_poll_t poll;
    bool polled =
        uv_guess_handle(STDIN_FILENO) != UV_FILE && uv_poll_init(harness_loop(drive->h), &poll, STDIN_FILENO) == 0;
    do {
        if (polled) {
            uv_poll_start(&poll, UV_READABLE, on_readable);
            while (uv_is_active((uv_handle_t *)&poll))
                uv_run(harness_loop(drive->h), UV_RUN_DEFAULT);
        }
    } while (read_more(drive));
    if (polled) {
        uv_close((uv_handle_t *)&poll, NULL);
        uv_run(harness_loop(drive->h), UV_RUN_NOWAIT);
    }
}

static void read_arguments(struct drive *drive, int argc, char **argv)
{
    static const struct option longs[] = {
        {"kind", required_argument, NULL, 'k'},     {"set", required_argument, NULL, 's'},
        {"deadline", required_argument, NULL, 'd'}, {"out", required_argument, NULL, 'o'},
        {"describe", no_argument, NULL, 'D'},       {0},
    };
    int which;
    while ((which = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
        char *equals = which == 's' ? strchr(optarg, '=') : NULL;
        if (which == 'k')
            drive->kind = optarg;
        else if (which == 'd')
            drive->deadline_ms = atoll(optarg);
        else if (which == 'D')
            drive->describe = true;
        else if (which == 'o')
            out = fdopen(atoi(optarg), "w");
        else if (equals && drive->option_count < MAX_OPTIONS) {
            *equals = '\0';
            drive->options[drive->option_count++] = (struct outbox_sink_option){optarg, equals + 1};
        } else
            fail("see the head of sink_drive.c", argv[optind - 1]);
    }
    if (!out)
        fail("--out is no descriptor", "");
    if (!drive->kind)
        fail("--kind is missing", argv[0]);
}

/* In the words of docs/sinks.md. */
static const char *const type_names[] = {
    [OUTBOX_OPTION_TEXT] = "text", [OUTBOX_OPTION_INT] = "number",   [OUTBOX_OPTION_BOOL] = "true or false",
    [OUTBOX_OPTION_SIZE] = "size", [OUTBOX_OPTION_ENUM] = "choices", [OUTBOX_OPTION_DURATION] = "duration",
    [OUTBOX_OPTION_LIST] = "list", [OUTBOX_OPTION_MAP] = "map",      [OUTBOX_OPTION_FILE] = "file",
};

static int describe(const char *kind)
{
    const struct outbox_sink_ops *ops = ob_sink_find(kind);
    for (const struct outbox_sink_setting *row = ops ? ops->settings : NULL; row && row->name; row++)
        say(json_pack("{s:s, s:s, s:o, s:o, s:b, s:b, s:s}", "name", row->name, "type", type_names[row->type],
                      "choices", text_or_null(row->choices), "fallback", text_or_null(row->fallback), "required",
                      row->required, "secret", row->secret, "doc", row->doc));
    return ops ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct drive drive = {.deadline_ms = 10000};
    struct outbox_error err = {0};
    out = stdout;
    read_arguments(&drive, argc, argv);
    if (drive.describe)
        return describe(drive.kind);
    drive.h = harness_open(drive.kind, drive.options, drive.option_count, &err);
    if (!drive.h) {
        say(json_pack("{s:s, s:o}", "error", outbox_code_name(err.code), "text", text_or_null(err.text)));
        return 2;
    }
    say(json_pack("{s:s}", "opened", harness_ops(drive.h)->kind));
    harness_watch(drive.h, &drive, say_verdict, say_log);
    run_script(&drive);
    bool answered = drive.stop ? harness_pending(drive.h) == 0 : harness_wait(drive.h, drive.deadline_ms);
    if (!answered)
        unanswered(&drive);
    free(drive.text);
    if (!harness_close(drive.h)) {
        fprintf(stderr, "sink-drive: the sink left something in the loop\n");
        return 4;
    }
    return answered ? 0 : 3;
}
