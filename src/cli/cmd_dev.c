/* cmd_dev.c - relay, receiver and page in one process, on a file of SQLite. Deliveries go to stdout, the log to stderr.
 *
 * Threads: the relay's loop is this one; the receiver has its own, and prints; one more reads words from stdin. */
#include "cli/cli.h"

#include "base/log_out.h"
#include "daemon/receiver.h"
#include "daemon/serve.h"
#include "lib/migrate.h"
#include "lib/open.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { LAST_LINES_US = 1000000, SHOWN = 100 };
#define FILE_DEFAULT "outbox-dev.db"
#define LISTEN_DEFAULT "127.0.0.1:9464"

struct dev {
    struct ob_cli *cli;
    struct ob_log log;
    struct ob_receiver *receiver;
    struct ob_buf url, text; /* of the store; the configuration */
    bool created;
    pthread_t reader;
    bool reads;
    int wake; /* an eventfd: ends the reader */
};

static const char *listen_of(const struct ob_cli *cli)
{
    return cli->args.listen ? cli->args.listen : LISTEN_DEFAULT;
}

/* ---- what is printed --------------------------------------------------------------------------------------------- */

static void print_time(const struct ob_cli *cli)
{
    char text[16];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    strftime(text, sizeof text, "%H:%M:%S  ", &tm);
    ob_say_text(cli, text, 0, OB_COLOR_DIM);
}

static void on_delivered(void *ctx, const struct ob_receiver_delivery *delivery)
{
    const struct dev *dev = ctx;
    const struct ob_cli *cli = dev->cli;
    enum ob_color color = delivery->status == 0 || delivery->status >= 300 ? OB_COLOR_RED : OB_COLOR_GREEN;
    flockfile(stdout);
    print_time(cli);
    ob_say_text(cli, delivery->topic, 16, OB_COLOR_BOLD);
    fputs("  ", stdout);
    if (delivery->key) {
        fputs("key ", stdout);
        ob_say_text(cli, delivery->key, 0, OB_COLOR_NONE);
        fputs("  ", stdout);
    }
    fputs("attempt ", stdout);
    ob_say_text(cli, delivery->attempt, 0, OB_COLOR_NONE);
    fputs("  ", stdout);
    ob_print_safe(stdout, delivery->body, delivery->len < SHOWN ? delivery->len : SHOWN);
    fputs(delivery->len > SHOWN ? "…  -> " : "  -> ", stdout);
    char status[16] = "no answer";
    if (delivery->status)
        snprintf(status, sizeof status, "%d", delivery->status);
    ob_say_text(cli, status, 0, color);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
}

static void on_changed(void *ctx, enum ob_receiver_answer answer)
{
    const struct dev *dev = ctx;
    flockfile(stdout);
    print_time(dev->cli);
    printf("the receiver answers %s: %s\n", ob_receiver_word(answer), ob_receiver_text(answer));
    fflush(stdout);
    funlockfile(stdout);
}

static void on_started(void *ctx, int admin_port)
{
    struct dev *dev = ctx;
    const char *path = ob_url_path(ob_buf_text(&dev->url));
    int port = ob_receiver_port(dev->receiver);
    flockfile(stdout);
    printf("Outbox in ");
    ob_print_safe(stdout, path, strlen(path));
    printf("%s. Ctrl-C ends it.\n", dev->created ? ", a new file" : "");
    const char *listen = listen_of(dev->cli);
    printf("  page      http://%.*s:%d/\n", (int)(strrchr(listen, ':') - listen), listen, admin_port);
    printf("  receiver  http://127.0.0.1:%d/, which gets every message\n", port);
    printf("  to send   outbox send hello '{\"from\": \"me\"}' --store sqlite:");
    ob_print_safe(stdout, path, strlen(path));
    printf("\n  to break  type ok, fail, refuse, limit, slow or down;\n"
           "            or: curl -X PUT -d fail http://127.0.0.1:%d/answer\n",
           port);
    fflush(stdout);
    funlockfile(stdout);
}

/* ---- words from the terminal ------------------------------------------------------------------------------------- */

static void obey(struct dev *dev, char *line)
{
    enum ob_receiver_answer answer;
    size_t from = strspn(line, " \t"), len = strcspn(line + from, " \t\r\n");
    if (len == 0)
        return;
    if (len == 4 && memcmp(line + from, "quit", 4) == 0) {
        kill(getpid(), SIGTERM);
    } else if (ob_receiver_find(line + from, len, &answer)) {
        ob_receiver_set(dev->receiver, answer);
        on_changed(dev, answer);
    } else {
        ob_cli_note(dev->cli, "type ok, fail, refuse, limit, slow, down, or quit");
    }
}

/* Until the end of stdin. A process in the background gets an error, not a stop: SIGTTIN is ignored. */
static void *read_words(void *ctx)
{
    struct dev *dev = ctx;
    char line[128];
    size_t len = 0;
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = dev->wake, .events = POLLIN}};
    while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
        char c;
        if (read(STDIN_FILENO, &c, 1) != 1)
            return NULL;
        if (c != '\n') {
            line[len < sizeof line - 2 ? len++ : len] = c;
            continue;
        }
        line[len] = '\0';
        len = 0;
        obey(dev, line);
    }
    return NULL;
}

static void start_reader(struct dev *dev)
{
    signal(SIGTTIN, SIG_IGN);
    dev->wake = eventfd(0, EFD_CLOEXEC);
    dev->reads = dev->wake >= 0 && pthread_create(&dev->reader, NULL, read_words, dev) == 0;
}

static void stop_reader(struct dev *dev)
{
    if (dev->reads && eventfd_write(dev->wake, 1) == 0)
        pthread_join(dev->reader, NULL);
    if (dev->wake >= 0)
        close(dev->wake);
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

/* A file of SQLite and nothing else: what is in the outbox goes to the built-in receiver, which must not happen to a shared one. */
static enum outbox_code choose_store(struct dev *dev)
{
    const struct ob_args *args = &dev->cli->args;
    struct outbox_error *err = &dev->cli->err;
    const char *word = args->rest_count > 0 ? args->rest[0] : args->store ? args->store : FILE_DEFAULT;
    bool is_url = ob_url_kind(word) != OB_URL_UNKNOWN;
    if (args->rest_count > 0 && args->store)
        return ob_error_set(err, OUTBOX_INVALID, "outbox dev takes either FILE or --store, not both");
    if (is_url && ob_url_kind(word) != OB_URL_SQLITE)
        return ob_error_set(err, OUTBOX_INVALID,
                            "outbox dev delivers everything to its own receiver, so it takes a file of SQLite only; "
                            "for another store use outbox run");
    ob_buf_printf(&dev->url, "%s%s", is_url ? "" : "sqlite:", word);
    return ob_buf_ok(&dev->url) ? OUTBOX_OK : ob_error_nomem(err);
}

static enum outbox_code create_store(struct dev *dev)
{
    const char *url = ob_buf_text(&dev->url);
    struct ob_open open = {.create = true};
    struct ob_migrate how = {0};
    dev->created = access(ob_url_path(url), F_OK) != 0;
    return ob_store_migrate(url, &open, &how, &dev->cli->err);
}

/* The page has no password: nobody else may reach it. */
static bool is_loopback(const char *listen)
{
    return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "[::1]:", 6) == 0 ||
           strncmp(listen, "localhost:", 10) == 0;
}

static enum outbox_code write_config(struct dev *dev)
{
    const char *listen = listen_of(dev->cli);
    if (!is_loopback(listen) || strpbrk(listen, "\"\\\n"))
        return ob_error_set(&dev->cli->err, OUTBOX_INVALID,
                            "--listen: \"%s\" is not a loopback address with a port, such as 127.0.0.1:9464", listen);
    ob_buf_printf(&dev->text,
                  "admin: {listen: \"%s\"}\n"
                  "relay: {poll: 100ms, control_every: 500ms}\n"
                  "sinks:\n"
                  "  receiver: {kind: http, url: \"http://127.0.0.1:%d/\", allow: 127.0.0.1, timeout: 10s, "
                  "retry: {base: 1s, cap: 10s}}\n"
                  "routes:\n"
                  "  - {sink: receiver}\n"
                  "log: {level: warn}\n",
                  listen, ob_receiver_port(dev->receiver));
    return ob_buf_ok(&dev->text) ? OUTBOX_OK : ob_error_nomem(&dev->cli->err);
}

static struct ob_config *load(void *ctx)
{
    struct dev *dev = ctx;
    struct ob_config_input input = ob_cli_config_input(dev->cli, NULL);
    struct ob_config *config = NULL;
    struct ob_config_report report;
    input.path = NULL;
    input.env = NULL;
    input.text = ob_buf_text(&dev->text);
    input.store = ob_buf_text(&dev->url);
    input.relay = true;
    if (ob_config_load(&input, &config, &report))
        config = NULL;
    for (const struct ob_config_problem *problem = report.first; problem; problem = problem->next) {
        struct ob_buf line = OB_BUF_INIT;
        ob_config_problem_text(problem, &line);
        ob_log(&dev->log, problem->error ? OB_LOG_ERROR : OB_LOG_WARN, "configuration",
               OB_STR("problem", ob_buf_text(&line)));
        ob_buf_fini(&line);
    }
    ob_config_report_fini(&report);
    return config;
}

static enum outbox_code serve(struct dev *dev, struct ob_log_out *out)
{
    struct ob_config *config = load(dev);
    if (!config)
        return ob_error_set(&dev->cli->err, OUTBOX_CONFIG, "not started: --set has errors, see above");
    struct ob_serve_options options = {.config = config,
                                       .reload = load,
                                       .unload = ob_config_free,
                                       .ctx = dev,
                                       .log = &dev->log,
                                       .out = out,
                                       .started = on_started,
                                       .open = true};
    start_reader(dev);
    enum outbox_code code = ob_serve(&options, &dev->cli->err);
    stop_reader(dev);
    return code;
}

int cmd_dev(struct ob_cli *cli)
{
    static struct ob_log_out out;
    struct dev dev = {.cli = cli, .wake = -1};
    struct ob_receiver_options receiver = {.delivered = on_delivered, .changed = on_changed, .ctx = &dev};
    if (cli->args.answer && !ob_receiver_find(cli->args.answer, strlen(cli->args.answer), &receiver.answer))
        return ob_cli_usage(cli, "--answer: \"%s\" is none of ok, fail, refuse, limit, slow and down",
                            cli->args.answer);
    ob_log_out_init(&out, STDERR_FILENO);
    dev.log = (struct ob_log){.level = OB_LOG_WARN, .write = ob_log_out_write, .ctx = &out};
    ob_serve_hold_signals(); /* before the threads of the receiver */
    enum outbox_code code = choose_store(&dev);
    if (!code)
        code = create_store(&dev);
    if (!code)
        code = ob_receiver_start(&receiver, &dev.receiver, &cli->err);
    if (!code)
        code = write_config(&dev);
    if (!code)
        code = serve(&dev, &out);
    ob_receiver_stop(dev.receiver);
    ob_buf_fini(&dev.url);
    ob_buf_fini(&dev.text);
    ob_log_out_fini(&out, LAST_LINES_US);
    return code ? ob_cli_fail(cli) : OB_EXIT_OK;
}
