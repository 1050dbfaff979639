/* payload.c - reads payloads from the command line and checks them against a JSON Schema, with or without enqueuing them. */
#include "cli/cli.h"

#include "base/limits.h"
#include "jsonschema/schema.h"

#include <errno.h>
#include <string.h>

enum { PAYLOAD_MAX = OB_LIMIT_MOST_max_payload };

static bool read_all(FILE *file, struct ob_buf *buf)
{
    for (;;) {
        char *room = ob_buf_reserve(buf, 65536);
        if (!room)
            return false;
        size_t len = fread(room, 1, 65536, file);
        ob_buf_added(buf, len);
        if (len == 0)
            return !ferror(file);
        if (buf->len > PAYLOAD_MAX) {
            errno = EFBIG;
            return false;
        }
    }
}

ob_code ob_cli_payload(const char *word, struct ob_buf *buf, struct outbox_error *err)
{
    if (word[0] != '@' && strcmp(word, "-") != 0) {
        ob_buf_puts(buf, word);
        return ob_buf_ok(buf) ? OUTBOX_OK : ob_error_nomem(err);
    }
    FILE *file = word[0] == '@' ? fopen(word + 1, "rb") : stdin;
    bool ok = file && read_all(file, buf);
    int reason = errno;
    if (file && file != stdin)
        fclose(file);
    if (ok && buf->len == 0)
        return ob_error_set(err, OUTBOX_INVALID, "the payload from %s is empty; JSON null is a payload: null",
                            word[0] == '@' ? word + 1 : "stdin");
    if (ok)
        return OUTBOX_OK;
    return ob_error_set(err, OUTBOX_INVALID, "cannot read the payload from %s: %s", word[0] == '@' ? word + 1 : "stdin",
                        strerror(reason));
}

static bool check(struct ob_cli *cli, const struct ob_buf *payload, struct ob_jsonschema_fault *fault)
{
    struct ob_jsonschema *schema;
    struct outbox_error why = {0};
    enum outbox_code broken = ob_jsonschema_load(cli->args.json_schema, &schema, NULL, &why);
    if (broken == OUTBOX_INVALID) /* the schema is invalid, not the payload: another exit status */
        ob_error_set(&cli->err, OUTBOX_CONFIG, "%s", why.text);
    else if (broken)
        cli->err = why;
    if (broken)
        return false;
    enum outbox_code code =
        payload ? ob_jsonschema_check(schema, ob_buf_text(payload), payload->len, fault) : OUTBOX_OK;
    ob_jsonschema_free(schema);
    if (code == OUTBOX_NOMEM)
        ob_error_nomem(&cli->err);
    else if (code)
        ob_error_set(&cli->err, code, "the payload does not fit %s: %s", cli->args.json_schema, fault->text);
    return code == OUTBOX_OK;
}

bool ob_cli_fits(struct ob_cli *cli, const struct ob_buf *payload)
{
    struct ob_jsonschema_fault fault;
    return !cli->args.json_schema || check(cli, payload, &fault);
}

/* error: of the schema itself, when the payload was not checked; NULL: none. */
static void say_json(const char *file, const struct ob_jsonschema_fault *fault, const char *error)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    bool found = fault->text[0];
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "ok"), ob_json_bool(&json, !found && !error);
    ob_json_count(&json, "errors", found || error);
    ob_json_count(&json, "warnings", 0);
    ob_json_text(&json, "file", file);
    ob_json_key(&json, "problems");
    ob_json_array(&json);
    if (found || error) {
        ob_json_object(&json);
        ob_json_text(&json, "level", "error");
        ob_json_text(&json, "path", found ? fault->path : NULL);
        ob_json_text(&json, "rule", found ? fault->rule : NULL);
        ob_json_text(&json, "text", found ? fault->text : error);
        ob_json_end(&json);
    }
    ob_json_end(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
}

int ob_cli_validate_payload(struct ob_cli *cli)
{
    struct ob_buf payload = OB_BUF_INIT;
    struct ob_jsonschema_fault fault = {.text = ""};
    const char *word = cli->args.rest_count ? cli->args.rest[0] : NULL;
    bool ok = (!word || !ob_cli_payload(word, &payload, &cli->err)) && check(cli, word ? &payload : NULL, &fault);
    bool answered = ok || fault.text[0] || cli->err.code == OUTBOX_CONFIG;
    int status = ok ? OB_EXIT_OK : ob_code_exit(cli->err.code);
    if (cli->args.json && answered)
        say_json(cli->args.json_schema, &fault, ok ? NULL : cli->err.text);
    else if (!ok)
        ob_cli_fail(cli);
    else
        ob_cli_note(cli, "%s: %s", cli->args.json_schema, word ? "the payload fits" : "valid");
    ob_buf_fini(&payload);
    return status;
}
