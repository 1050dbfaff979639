/* pretty.c - pretty-prints JSON, token by token. It never parses numbers or strings, so none can change. */
#include "cli/cli.h"

#include <string.h>

static void new_line(struct ob_buf *buf, int blanks)
{
    ob_buf_putc(buf, '\n');
    for (; blanks > 0; blanks--)
        ob_buf_putc(buf, ' ');
}

/* The end of the string that begins at json[i], after its closing quote. */
static size_t string_end(const char *json, size_t len, size_t i)
{
    for (i++; i < len && json[i] != '"'; i++)
        if (json[i] == '\\')
            i++;
    return i < len ? i + 1 : len;
}

static size_t skip_space(const char *json, size_t len, size_t i)
{
    while (i < len && strchr(" \t\r\n", json[i]))
        i++;
    return i;
}

void ob_json_pretty(struct ob_buf *buf, const char *json, size_t len, int indent)
{
    int depth = 0;
    for (int blanks = indent; blanks > 0; blanks--)
        ob_buf_putc(buf, ' ');
    for (size_t i = skip_space(json, len, 0); i < len; i = skip_space(json, len, i)) {
        char c = json[i];
        if (c == '"') {
            size_t end = string_end(json, len, i);
            ob_json_shown(buf, json + i, end - i);
            i = end;
            continue;
        }
        i++;
        if (c == '{' || c == '[') {
            size_t next = skip_space(json, len, i);
            ob_buf_putc(buf, c);
            if (next < len && (json[next] == '}' || json[next] == ']')) {
                ob_buf_putc(buf, json[next]);
                i = next + 1;
            } else {
                new_line(buf, indent + 2 * ++depth);
            }
        } else if (c == '}' || c == ']') {
            new_line(buf, indent + 2 * --depth);
            ob_buf_putc(buf, c);
        } else if (c == ',') {
            ob_buf_putc(buf, c);
            new_line(buf, indent + 2 * depth);
        } else if (c == ':') {
            ob_buf_puts(buf, ": ");
        } else {
            ob_buf_putc(buf, c);
        }
    }
}
