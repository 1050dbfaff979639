/* out.c - output of the commands. */
#include "cli/cli.h"

#include "base/utf8.h"
#include "lib/open.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- stderr ------------------------------------------------------------------------------------------------------ */

/* A text of several lines may quote untrusted text: everything except its line breaks is escaped. */
static void say_lines(const char *text)
{
    fflush(stdout); /* keeps the order when stdout and stderr go to the same place */
    for (;;) {
        size_t len = strcspn(text, "\n");
        ob_print_safe(stderr, text, len);
        fputc('\n', stderr);
        if (!text[len])
            return;
        text += len + 1;
    }
}

static void say_error_json(const struct outbox_error *err)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "error");
    ob_json_object(&json);
    ob_json_text(&json, "code", outbox_code_name(err->code));
    ob_json_text(&json, "sqlstate", *err->sqlstate ? err->sqlstate : NULL);
    ob_json_text(&json, "text", err->text);
    ob_json_end(&json);
    ob_json_end(&json);
    fprintf(stderr, "%s\n", ob_buf_text(&buf));
    ob_buf_fini(&buf);
}

void ob_say_error(const struct ob_args *args, const struct outbox_error *err)
{
    if (args->json) {
        say_error_json(err);
    } else {
        fputs("outbox: ", stderr);
        say_lines(err->text);
    }
}

int ob_cli_fail(struct ob_cli *cli)
{
    ob_say_error(&cli->args, &cli->err);
    return ob_code_exit(cli->err.code);
}

int ob_cli_usage(struct ob_cli *cli, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    bool asks = *text && text[strlen(text) - 1] == '?';
    ob_error_set(&cli->err, OUTBOX_INVALID, "%s%s: outbox %s --help", text, asks ? " See" : "; see",
                 cli->args.command->name);
    ob_cli_fail(cli);
    return OB_EXIT_USAGE;
}

static void say_note_json(const char *text)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "note", text);
    ob_json_end(&json);
    fprintf(stderr, "%s\n", ob_buf_text(&buf));
    ob_buf_fini(&buf);
}

void ob_cli_note(const struct ob_cli *cli, const char *format, ...)
{
    va_list list;
    if (cli->args.quiet)
        return;
    struct ob_buf buf = OB_BUF_INIT;
    va_start(list, format);
    ob_buf_vprintf(&buf, format, list);
    va_end(list);
    if (cli->args.json)
        say_note_json(ob_buf_text(&buf));
    else
        say_lines(ob_buf_text(&buf));
    ob_buf_fini(&buf);
}

void ob_cli_warn_password(const struct ob_cli *cli, const char *where, const char *url)
{
    char shown[400] = "";
    if (url)
        ob_url_redact(url, shown, sizeof shown);
    if (strstr(shown, "***"))
        ob_cli_note(cli,
                    "outbox: warning: %s contains a password that every user of this machine can see in the process "
                    "list; set OUTBOX_STORE instead, or keep the password in ~/.pgpass",
                    where);
}

bool ob_cli_confirm(struct ob_cli *cli, const char *format, ...)
{
    char answer[16];
    va_list list;
    if (cli->args.yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        ob_cli_usage(cli, "confirmation required, but there is no terminal: give --yes");
        return false;
    }
    struct ob_buf buf = OB_BUF_INIT;
    va_start(list, format);
    ob_buf_vprintf(&buf, format, list);
    va_end(list);
    ob_print_safe(stderr, ob_buf_text(&buf), buf.len);
    ob_buf_fini(&buf);
    fputs(" [y/N] ", stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    ob_cli_note(cli, "Nothing was changed.");
    return false;
}

/* ---- the actor --------------------------------------------------------------------------------------------------- */

struct ob_actor ob_cli_actor(const struct ob_cli *cli)
{
    const char *actor = cli->args.actor ? cli->args.actor : getenv("OUTBOX_ACTOR");
    if (!actor || !*actor) {
        const struct passwd *user = getpwuid(getuid());
        actor = user ? user->pw_name : NULL;
    }
    return (struct ob_actor){.actor = actor, .reason = cli->args.reason};
}

/* ---- stdout ------------------------------------------------------------------------------------------------------ */

static const char *color_code(enum ob_color color)
{
    switch (color) {
    case OB_COLOR_DIM: return "\033[2m";
    case OB_COLOR_BOLD: return "\033[1m";
    case OB_COLOR_RED: return "\033[31m";
    case OB_COLOR_GREEN: return "\033[32m";
    case OB_COLOR_YELLOW: return "\033[33m";
    default: return "";
    }
}

int ob_print_safe(FILE *file, const char *text, size_t len)
{
    int shown = 0;
    for (size_t i = 0; i < len;) {
        size_t width = ob_utf8_width(text + i, len - i);
        unsigned character = width ? ob_utf8_decode(text + i, width) : (unsigned char)text[i];
        if (!width || character < 0x20 || (character >= 0x7f && character < 0xa0)) {
            shown += fprintf(file, "\\x%02x", character);
        } else if (ob_utf8_controls(character)) {
            shown += fprintf(file, "\\u%04x", character);
        } else {
            fwrite(text + i, 1, width, file);
            shown++;
        }
        i += width ? width : 1;
    }
    return shown;
}

void ob_say_text(const struct ob_cli *cli, const char *text, int width, enum ob_color color)
{
    bool colored = cli->color && color != OB_COLOR_NONE;
    if (colored)
        fputs(color_code(color), stdout);
    int shown = ob_print_safe(stdout, text ? text : "-", text ? strlen(text) : 1);
    if (colored)
        fputs("\033[0m", stdout);
    for (; shown < width; shown++)
        putchar(' ');
}

void ob_say_json(struct ob_buf *buf)
{
    if (ob_buf_ok(buf))
        fwrite(ob_buf_text(buf), 1, buf->len, stdout);
    putchar('\n');
    ob_buf_fini(buf);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

enum ob_color ob_status_color(enum ob_status status)
{
    switch (status) {
    case OB_STATUS_DELIVERED: return OB_COLOR_GREEN;
    case OB_DEAD: return OB_COLOR_RED;
    case OB_PROCESSING: return OB_COLOR_YELLOW;
    case OB_DISCARDED: return OB_COLOR_DIM;
    default: return OB_COLOR_NONE;
    }
}
