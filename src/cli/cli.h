/* cli.h - shared by the commands: settings of the run, the open store, and output.
 *
 * Data goes to stdout, notes and errors to stderr. Text from the database may contain terminal escape sequences: it is
 * printed through ob_say_text, which escapes them. */
#ifndef OB_CLI_CLI_H
#define OB_CLI_CLI_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/args.h"
#include "config/config.h"
#include "core/filter.h"
#include "report/report.h"

#include <stdio.h>

enum { OB_EXIT_OK = 0, OB_EXIT_UNHEALTHY = 1, OB_EXIT_USAGE = 2 };

/* The error when a command needs a relay's configuration and there is none. */
#define OB_NO_CONFIG \
    "no configuration found: give --config FILE, or create ./outbox.yaml or /etc/outbox/outbox.yaml; " \
    "outbox config --sample prints one to start from"

struct ob_config;

struct ob_cli {
    struct ob_args args;
    const char *url;          /* NULL: not given */
    const char *schema;       /* NULL: the default */
    bool color;               /* stdout is a terminal that supports colours */
    struct ob_store *store;   /* NULL until ob_cli_open */
    int64_t limit_us;         /* how long a statement may take; 0: no limit of ours */
    struct ob_config *config; /* the configuration that named the store, if it came from a file */
    struct ob_arena arena;    /* lives as long as the command */
    struct outbox_error err;
};

/* One per command, named as in commands.def. Returns the exit status. */
#define OUTBOX_GLOBAL(...)
#define OUTBOX_OPTION(...)
#define OUTBOX_COMMAND(name, ...) int cmd_##name(struct ob_cli *cli);
#include "commands.def"
#undef OUTBOX_GLOBAL
#undef OUTBOX_OPTION
#undef OUTBOX_COMMAND

/* Takes the store from the configuration when neither the command line nor OUTBOX_STORE names one. True also when there
 * is none; false after it set cli->err. */
bool ob_cli_find_store(struct ob_cli *cli);
/* Reads the whole configuration and prints its warnings to stderr; errors are in cli->err. The caller frees it. */
enum outbox_code ob_cli_config(struct ob_cli *cli, struct ob_config **config);
/* The input for ob_config_load; path NULL: the usual places. */
struct ob_config_input ob_cli_config_input(const struct ob_cli *cli, const char *path);

/* Whether a store is named and the options fit it; false after it set cli->err. */
bool ob_cli_has_store(struct ob_cli *cli);
/* Opens the store; false after it set cli->err. */
bool ob_cli_open(struct ob_cli *cli);
/* Prints an error to stderr: a line of text, or with --json a document. */
void ob_say_error(const struct ob_args *args, const struct outbox_error *err);
/* Prints cli->err and returns its exit status. */
int ob_cli_fail(struct ob_cli *cli);
/* The same for a usage error; exit status 2. */
int ob_cli_usage(struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a note to stderr, unless --quiet; with --json a document. */
void ob_cli_note(const struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Warns about a password in a URL among the arguments; url NULL: does nothing. */
void ob_cli_warn_password(const struct ob_cli *cli, const char *where, const char *url);
/* Asks for confirmation on the terminal; true for yes. Without a terminal and without --yes: prints an error and returns
 * false. */
bool ob_cli_confirm(struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Builds the filter from the arguments (ids, and terms such as topic:orders.*) and from --status, --topic and similar options.
 * Its texts are in cli->arena. Returns 0, or the exit status after it printed the error. */
int ob_cli_filter(struct ob_cli *cli, struct ob_filter *filter);
/* Reads a payload argument: "-" is stdin, "@FILE" a file, anything else the payload itself. */
enum outbox_code ob_cli_payload(const char *word, struct ob_buf *buf, struct outbox_error *err);
/* Whether the payload satisfies --json-schema, or none was given; false after it set cli->err. */
bool ob_cli_fits(struct ob_cli *cli, const struct ob_buf *payload);
/* `outbox validate --json-schema FILE [PAYLOAD]`; returns the exit status. */
int ob_cli_validate_payload(struct ob_cli *cli);
/* The actor to be recorded. Borrowed. */
struct ob_actor ob_cli_actor(const struct ob_cli *cli);

/* Checks that the store, the configuration or a relay knows this topic or sink; name_space or topic NULL: any. Returns 0,
 * or the exit status after it printed that there is none, the nearest name, and, if may_come, how to use the name anyway. */
int ob_cli_known_topic(struct ob_cli *cli, const char *name_space, const char *topic, bool may_come);
int ob_cli_known_sink(struct ob_cli *cli, const char *name);

void ob_relays_say(struct ob_cli *cli, const struct ob_relays *relays);

void ob_help_all(FILE *file);
void ob_help_command(FILE *file, const struct ob_command *command);

/* ---- output ---- */

enum ob_color { OB_COLOR_NONE, OB_COLOR_DIM, OB_COLOR_BOLD, OB_COLOR_RED, OB_COLOR_GREEN, OB_COLOR_YELLOW };

/* Prints untrusted text: characters that control a terminal or change the direction of text are shown as escapes. Returns
 * the number of columns. */
int ob_print_safe(FILE *file, const char *text, size_t len);
/* To stdout; text NULL is shown as "-". width pads on the right; 0: no padding. */
void ob_say_text(const struct ob_cli *cli, const char *text, int width, enum ob_color color);
/* Prints a JSON document or line and a newline. Frees the buffer. */
void ob_say_json(struct ob_buf *buf);
/* Pretty-prints JSON, every line indented by `indent` spaces. Numbers and strings are not changed. */
void ob_json_pretty(struct ob_buf *buf, const char *json, size_t len, int indent);

enum ob_color ob_status_color(enum ob_status status);

/* look.c: one look at the whole outbox. Call fini in any case. */
struct ob_look {
    struct ob_arena arena;
    int64_t at_us;
    struct ob_status_row *topics, total; /* total: sums, and the highest ages */
    size_t count, room;
    struct ob_relays *relays;
    struct ob_pauses pauses;
    size_t sinks, breakers; /* how many sinks there are, and how many of them have an open breaker */
    bool failed;
};
/* name_space and topic: only these, names or patterns; NULL: all. */
enum outbox_code ob_look_read(struct ob_store *store, const char *name_space, const char *topic, struct ob_look *look,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_look_fini(struct ob_look *look);
/* Of the messages that are neither delivered nor dead, the part that failed before: 0 to 1; 0 for fewer than ten failures. */
double ob_look_retry_share(const struct ob_look *look);

/* transition.c: something that happened, as a line of stdout. */
void ob_say_transition(struct ob_cli *cli, const struct ob_transition_row *row);

#endif
