/* exec.c - the sink that runs a program per message: payload on its standard input, metadata in its environment, and its
 * exit status says how it went.
 *
 * Nothing from a message becomes part of the command: its words are fixed by the configuration, and no shell is involved.
 * A program gets PATH, the configured variables, and OUTBOX_...; no other variable and no descriptor of the relay. It
 * leads its own process group; processes that it leaves behind in that group are killed when it ends, is cancelled or the
 * sink is closed.
 *
 * A run lives until libuv has closed all its handles, which may be after the sink is gone: then run->sink is NULL, and
 * so it is after a verdict or a cancel. On the loop's thread. */
#include "sink/local/exec.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/list.h"
#include "sink/common/option.h"
#include "sink/local/append.h"
#include "sink/shortage.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

extern const struct outbox_sink_ops ob_sink_exec;

enum { ERROR_MOST = 4000, DRAIN_MS = 200, WHY_MAX = 500 };

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct ob_exec plan;
    struct ob_list runs;
    size_t output_most;
    int64_t kill_after_us;
};

struct run {
    struct ob_list node;
    outbox_sink *sink; /* NULL: no verdict is to be reported */
    uint64_t handle;
    uv_process_t process;
    uv_pipe_t in, out, err;
    uv_timer_t timer; /* until SIGKILL, or until the rest of the output is given up */
    uv_write_t write;
    char *payload; /* our own: the message is the host's again once it is answered */
    struct ob_buf output, errors;
    size_t output_most;
    bool too_much, exited;
    bool spawned;     /* libuv knows process, even if it could not be started */
    int reading;      /* of out and err, those not at their end */
    int64_t status;   /* of the exit */
    int signal;       /* that ended it */
    int open_handles; /* not yet closed */
};

static const struct outbox_sink_setting settings[] = {
    {.name = "command",
     .also = "argv cmd exec",
     .type = OUTBOX_OPTION_LIST,
     .required = true,
     .doc = "program and arguments, as a list; no shell is involved"},
    {.name = "directory", .type = OUTBOX_OPTION_TEXT, .doc = "working directory (default: the relay's)"},
    {.name = "env",
     .type = OUTBOX_OPTION_MAP,
     .hidden = true,
     .doc = "extra environment variables; otherwise only `PATH` and `OUTBOX_...` are set"},
    {.name = "exit",
     .type = OUTBOX_OPTION_MAP,
     .doc = "outcome of an exit status: `accept`, `retry`, `terminal`, `blocked` or `unknown`"},
    {.name = "other",
     .type = OUTBOX_OPTION_ENUM,
     .choices = "retry terminal unknown",
     .fallback = "retry",
     .doc = "outcome of an exit status that `exit` does not list"},
    {.name = "max_output",
     .type = OUTBOX_OPTION_SIZE,
     .fallback = "64KiB",
     .least = 0,
     .most = 16 << 20,
     .doc = "most bytes of standard output kept; a JSON object goes to outcome hooks, and its string `reference` is "
            "the receiver's id"},
    {.name = "kill_after",
     .type = OUTBOX_OPTION_DURATION,
     .fallback = "2s",
     .least = 0,
     .most = 60000000,
     .doc = "time between SIGTERM and SIGKILL when a delivery times out"},
    {0},
};

/* ---- the end of a run ---- */

static void on_closed(uv_handle_t *handle)
{
    struct run *run = handle->data;
    if (--run->open_handles > 0)
        return;
    ob_list_remove(&run->node);
    ob_buf_fini(&run->output);
    ob_buf_fini(&run->errors);
    ob_free(run->payload);
    ob_free(run);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_all(struct run *run)
{
    close_handle((uv_handle_t *)&run->in);
    close_handle((uv_handle_t *)&run->out);
    close_handle((uv_handle_t *)&run->err);
    close_handle((uv_handle_t *)&run->timer);
    if (run->spawned)
        close_handle((uv_handle_t *)&run->process);
}

/* The output, when it is a JSON object; NULL otherwise. */
static json_t *output_object(const struct run *run)
{
    if (run->too_much || !run->output.len || !ob_buf_ok(&run->output))
        return NULL;
    json_t *object = json_loadb(run->output.data, run->output.len, 0, NULL);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

static void answer(struct run *run)
{
    char code[32];
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    outbox_sink *sink = run->sink;
    run->sink = NULL;
    if (sink) {
        json_t *object = output_object(run);
        ob_exec_verdict(&sink->plan, run->status, run->signal, code, &verdict);
        if (verdict.outcome != OUTBOX_SINK_ACCEPTED)
            verdict.text = run->errors.len ? ob_buf_text(&run->errors) : "the program wrote nothing to standard error";
        verdict.output = object ? ob_buf_text(&run->output) : NULL;
        verdict.reference = json_string_value(json_object_get(object, "reference"));
        sink->host->done(sink->host->ctx, run->handle, &verdict);
        json_decref(object);
    }
    close_all(run);
}

static void on_drained(uv_timer_t *timer)
{
    answer(timer->data);
}

static void on_exit_of(uv_process_t *process, int64_t status, int number)
{
    struct run *run = process->data;
    run->exited = true;
    run->status = status;
    run->signal = number;
    kill(-process->pid, SIGKILL); /* what it left behind; while there is any of it, nobody else gets the number */
    if (run->reading == 0 || !run->sink)
        answer(run);
    else
        uv_timer_start(&run->timer, on_drained, DRAIN_MS, 0); /* one that left the group may hold the pipe */
}

/* ---- pipes ---- */

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    static char shared[65536]; /* read and used at once, on one thread */
    (void)handle;
    (void)size;
    *buf = uv_buf_init(shared, sizeof shared);
}

/* Keeps output up to the limit and discards the rest: a program must not hang because it writes too much. */
static void keep(struct run *run, const uv_pipe_t *pipe, const char *data, size_t len)
{
    struct ob_buf *into = pipe == &run->out ? &run->output : &run->errors;
    size_t most = pipe == &run->out ? run->output_most : ERROR_MOST;
    size_t room = into->len < most ? most - into->len : 0;
    if (pipe == &run->out && len > room)
        run->too_much = true;
    ob_buf_put(into, data, len < room ? len : room);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct run *run = stream->data;
    if (got >= 0) {
        keep(run, (uv_pipe_t *)stream, buf->base, (size_t)got);
        return;
    }
    uv_read_stop(stream);
    run->reading--;
    if (run->reading == 0 && run->exited)
        answer(run);
}

static void on_written(uv_write_t *write, int status)
{
    struct run *run = write->handle->data;
    (void)status; /* a program need not read its input */
    close_handle((uv_handle_t *)&run->in);
}

/* ---- starting ---- */

static struct run *run_new(outbox_sink *sink, const struct outbox_sink_item *item)
{
    struct run *run = ob_calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->payload = ob_memdup(item->msg->payload, item->msg->payload_len);
    if (!run->payload) {
        ob_free(run);
        return NULL;
    }
    run->sink = sink;
    run->handle = item->handle;
    run->output_most = sink->output_most;
    uv_pipe_init(sink->host->loop, &run->in, 0);
    uv_pipe_init(sink->host->loop, &run->out, 0);
    uv_pipe_init(sink->host->loop, &run->err, 0);
    uv_timer_init(sink->host->loop, &run->timer);
    run->in.data = run->out.data = run->err.data = run->timer.data = run->process.data = run;
    run->open_handles = 4;
    ob_list_push(&sink->runs, &run->node);
    return run;
}

static int spawn(outbox_sink *sink, struct run *run, char **env)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&run->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->err},
    };
    const uv_process_options_t options = {.exit_cb = on_exit_of,
                                          .file = sink->plan.words[0],
                                          .args = sink->plan.words,
                                          .env = env,
                                          .cwd = sink->plan.directory,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio_count = 3,
                                          .stdio = stdio};
    /* A library may have opened descriptors without O_CLOEXEC: the program must not inherit them. */
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    run->spawned = true;
    run->open_handles++;
    return uv_spawn(sink->host->loop, &run->process, &options);
}

static const char *cannot_run(const struct ob_exec *plan, int number, char text[WHY_MAX])
{
    snprintf(text, WHY_MAX, "cannot run \"%.300s\": %s", plan->words[0], strerror(number));
    return text;
}

static void could_not_run(struct run *run, int number)
{
    char code[OB_ERRNO_CODE], text[WHY_MAX];
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    outbox_sink *sink = run->sink;
    run->sink = NULL;
    /* A shortage in this process is not the message's fault: nothing was tried. */
    bool ours = number == EAGAIN || number == ENOMEM || number == EMFILE || number == ENFILE;
    verdict.outcome = number == E2BIG ? OUTBOX_SINK_TERMINAL : ours ? OUTBOX_SINK_NOT_SENT : OUTBOX_SINK_BLOCKED;
    verdict.scope = OUTBOX_SCOPE_SINK;
    verdict.not_before_us = ours ? OB_SHORTAGE_US : -1;
    verdict.local = number == E2BIG;
    verdict.code = ob_errno_code("exec", number, code);
    verdict.text =
        number == E2BIG ? "the metadata does not fit into the environment" : cannot_run(&sink->plan, number, text);
    sink->host->done(sink->host->ctx, run->handle, &verdict);
    close_all(run);
}

static void start(outbox_sink *sink, const struct outbox_sink_item *item)
{
    struct ob_arena arena;
    struct run *run = run_new(sink, item);
    if (!run) {
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        verdict.outcome = OUTBOX_SINK_NOT_SENT;
        verdict.not_before_us = OB_SHORTAGE_US;
        verdict.code = "out_of_memory";
        sink->host->done(sink->host->ctx, item->handle, &verdict);
        return;
    }
    ob_arena_init(&arena, 0);
    char **env = ob_exec_env(&sink->plan, item->msg, &arena);
    int bad = env ? spawn(sink, run, env) : UV_ENOMEM;
    uv_buf_t input = uv_buf_init(run->payload, (unsigned)item->msg->payload_len);
    ob_arena_fini(&arena);
    if (bad) {
        could_not_run(run, -bad);
        return;
    }
    run->reading = 2;
    uv_read_start((uv_stream_t *)&run->out, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&run->err, on_alloc, on_read);
    if (uv_write(&run->write, (uv_stream_t *)&run->in, &input, 1, on_written))
        close_handle((uv_handle_t *)&run->in);
}

static void exec_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        start(sink, &items[i]);
}

/* ---- stopping ---- */

/* The group of a program that was never started would be our own. */
static void kill_all_of(const struct run *run, int number)
{
    if (run->process.pid > 0)
        kill(-run->process.pid, number);
}

static void on_patience_over(uv_timer_t *timer)
{
    kill_all_of(timer->data, SIGKILL);
}

static void stop(struct run *run, int64_t patience_us)
{
    run->sink = NULL;
    if (run->exited) {
        close_all(run);
        return;
    }
    kill_all_of(run, patience_us ? SIGTERM : SIGKILL);
    if (patience_us)
        uv_timer_start(&run->timer, on_patience_over, (uint64_t)patience_us / 1000, 0);
}

static void exec_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH_SAFE (it, &sink->runs) {
        struct run *run = OB_CONTAINER(it, struct run, node);
        if (run->sink && run->handle == handle)
            stop(run, sink->kill_after_us);
    }
}

/* Runs that go on closing have no list any more. */
static void exec_close(outbox_sink *sink)
{
    if (!sink)
        return;
    OB_LIST_EACH_SAFE (it, &sink->runs) {
        struct run *run = OB_CONTAINER(it, struct run, node);
        bool closing = uv_is_closing((uv_handle_t *)&run->timer);
        ob_list_remove(it);
        if (!closing)
            stop(run, 0);
    }
    ob_exec_fini(&sink->plan);
    ob_free(sink);
}

static void exec_ping(outbox_sink *sink, uint64_t handle)
{
    char code[OB_ERRNO_CODE], text[WHY_MAX];
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    int number = ob_exec_look(&sink->plan);
    verdict.outcome = number ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_ACCEPTED;
    verdict.scope = OUTBOX_SCOPE_SINK;
    verdict.code = number ? ob_errno_code("exec", number, code) : NULL;
    verdict.text = number ? cannot_run(&sink->plan, number, text) : NULL;
    sink->host->done(sink->host->ctx, handle, &verdict);
}

static enum outbox_code exec_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    const struct ob_options get = {options, count, settings};
    outbox_sink *sink = ob_calloc(1, sizeof *sink);
    if (!sink)
        return ob_error_nomem(err);
    ob_list_init(&sink->runs);
    sink->host = host;
    sink->output_most = (size_t)ob_option_int(&get, "max_output");
    sink->kill_after_us = ob_option_int(&get, "kill_after");
    enum outbox_code code = ob_exec_init(&sink->plan, &get, err);
    if (code) {
        ob_exec_fini(&sink->plan);
        ob_free(sink);
        return code;
    }
    signal(SIGPIPE, SIG_IGN); /* a program need not read its input */
    *out = sink;
    return OUTBOX_OK;
}

const struct outbox_sink_ops ob_sink_exec = {
    OUTBOX_SINK_OPS_HEAD,
    .kind = "exec",
    .also = "command shell script process cmd",
    .keeps_order = false,
    .open = exec_open,
    .deliver = exec_deliver,
    .cancel = exec_cancel,
    .close = exec_close,
    .settings = settings,
    .ping = exec_ping,
    .descriptors = 4,
    .descriptors_each = 6,
    .summary = "runs one program per message",
    .protocol = "local",
};
