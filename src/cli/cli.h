/* cli.h - what the commands share: the run's settings, the open store, and how they talk.
 *
 * Data goes to stdout, notes and errors to stderr. Whatever comes out of the database may hold escape sequences of a
 * terminal: it is shown through ob_say_text, which leaves none. */
#ifndef OB_CLI_CLI_H
#define OB_CLI_CLI_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/args.h"
#include "config/config.h"
#include "core/store.h"

#include <stdio.h>

enum { OB_EXIT_OK = 0, OB_EXIT_UNHEALTHY = 1, OB_EXIT_USAGE = 2 };

/* What to do where a relay's configuration is wanted, and there is none. */
#define OB_NO_CONFIG \
    "no configuration found: give --config FILE, or create ./outbox.yaml or /etc/outbox/outbox.yaml; " \
    "outbox config --sample prints one to start from"

struct ob_config;

struct ob_cli {
    struct ob_args args;
    const char *url;          /* NULL: none was given */
    const char *schema;       /* NULL: the default */
    bool color;               /* stdout is a terminal that likes it */
    struct ob_store *store;   /* NULL until ob_cli_open */
    struct ob_config *config; /* what named the store, when it was a file */
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

/* Takes the store from the configuration when none was named on the line or by OUTBOX_STORE. True also when there is
 * none; false after it set cli->err. */
bool ob_cli_find_store(struct ob_cli *cli);
/* The whole configuration, its warnings told on stderr; an error in cli->err. The caller frees it. */
enum outbox_code ob_cli_config(struct ob_cli *cli, struct ob_config **config);
/* What the configuration is to be made of; path NULL: where it usually is. */
struct ob_config_input ob_cli_config_input(const struct ob_cli *cli, const char *path);

/* A store is named, and with options that fit it; false after it set cli->err. */
bool ob_cli_has_store(struct ob_cli *cli);
/* Opens the store; false after it set cli->err. */
bool ob_cli_open(struct ob_cli *cli);
/* An error on stderr: a line for people, or with --json a document. */
void ob_say_error(const struct ob_args *args, const struct outbox_error *err);
/* Says what went wrong (cli->err) and returns the exit status for it. */
int ob_cli_fail(struct ob_cli *cli);
/* The same for a mistake in what was typed; exit 2. */
int ob_cli_usage(struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A note on stderr, unless --quiet; with --json a document. */
void ob_cli_note(const struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For a URL among the arguments; NULL: there is none. */
void ob_cli_warn_password(const struct ob_cli *cli, const char *where, const char *url);
/* Asks on the terminal; true for yes. Without a terminal and without --yes: false, and says so. */
bool ob_cli_confirm(struct ob_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What --status, --topic and their like mean; 0, or the exit status after it said what is wrong. */
int ob_cli_filter(struct ob_cli *cli, struct ob_filter *filter);
/* A payload as it is typed: "-" is stdin, "@FILE" a file, anything else the payload itself. */
enum outbox_code ob_cli_payload(const char *word, struct ob_buf *buf, struct outbox_error *err);
/* The payload fits --json-schema, or none was given; false after it set cli->err. */
bool ob_cli_fits(struct ob_cli *cli, const struct ob_buf *payload);
/* `outbox validate --json-schema FILE [PAYLOAD]`; returns the exit status. */
int ob_cli_validate_payload(struct ob_cli *cli);
/* Who acts, for the record. Borrowed. */
struct ob_actor ob_cli_actor(const struct ob_cli *cli);

/* What the store, the configuration and the relays know of such a topic or sink; name_space or topic NULL: any. 0, or the
 * exit status after it said that there is none, which one was perhaps meant, and, where it may come, how to go on. */
int ob_cli_known_topic(struct ob_cli *cli, const char *name_space, const char *topic, bool may_come);
int ob_cli_known_sink(struct ob_cli *cli, const char *name);

struct ob_pause {
    const char *name_space, *topic, *sink; /* all NULL: everything */
};

/* The pauses in force. Finish them in any case. */
struct ob_pauses {
    struct ob_pause *items;
    size_t count, room;
    struct ob_arena arena;
    bool failed;
};
enum outbox_code ob_pauses_read(struct ob_store *store, struct ob_pauses *pauses,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_pauses_fini(struct ob_pauses *pauses);
bool ob_pauses_have(const struct ob_pauses *pauses, const struct ob_pause *pause);
void ob_pause_text(struct ob_buf *buf, const struct ob_pause *pause);
/* "everything, default/orders, sink billing", but for those that are in `without`; NULL: all. */
void ob_pauses_text(struct ob_buf *buf, const struct ob_pauses *pauses, const struct ob_pauses *without);
void ob_pauses_json(struct ob_json *json, const struct ob_pauses *pauses);

void ob_help_all(FILE *file);
void ob_help_command(FILE *file, const struct ob_command *command);

/* ---- output ---- */

enum ob_color { OB_COLOR_NONE, OB_COLOR_DIM, OB_COLOR_BOLD, OB_COLOR_RED, OB_COLOR_GREEN, OB_COLOR_YELLOW };

/* To stdout; text NULL shows as "-". width pads on the right; 0: no padding. */
/* Text that others may have written: characters that control a terminal, or turn the direction of a text, are shown as
 * escapes. Returns the columns. */
int ob_print_safe(FILE *file, const char *text, size_t len);
void ob_say_text(const struct ob_cli *cli, const char *text, int width, enum ob_color color);
/* A document or a line of JSON, then a newline. Frees the buffer. */
void ob_say_json(struct ob_buf *buf);
void ob_json_time(struct ob_json *json, const char *key, int64_t unix_us); /* 0: null */
void ob_json_text(struct ob_json *json, const char *key, const char *text);
void ob_json_count(struct ob_json *json, const char *key, int64_t value);
/* "3 s", "12 min", "4 h", "9 days" */
void ob_age_text(double seconds, char text[32]);
/* JSON laid out for reading, every line behind `indent` blanks. Numbers and strings stay as they are. */
void ob_json_pretty(struct ob_buf *buf, const char *json, size_t len, int indent);

const char *ob_status_name(enum ob_status status);
/* The status of this name + 1; 0: there is none. */
int ob_status_find(const char *name);
const char *ob_outcome_name(enum outbox_outcome outcome);
enum ob_color ob_status_color(enum ob_status status);
/* One message as a JSON object. */
void ob_json_message(struct ob_json *json, const struct ob_message_row *row, bool with_payload);

#endif
