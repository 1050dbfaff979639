/* answer.c - see answer.h. An answer is untrusted data: it is shown as printable text, without the secrets that we sent,
 * because some receivers repeat the request in their errors. */
#include "sink/http/answer.h"

#include "sink/curl/excerpt.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEADER_BYTES_MOST = 64 * 1024, EXCERPT_MOST = 2048 };

void ob_http_answer_init(struct ob_http_answer *answer, const struct ob_http_config *config)
{
    memset(answer, 0, sizeof *answer);
    answer->config = config;
}

void ob_http_answer_reset(struct ob_http_answer *answer)
{
    ob_buf_reset(&answer->body);
    ob_buf_reset(&answer->text);
    answer->received = answer->header_bytes = 0;
    answer->headed = answer->cut = answer->garbage = false;
    answer->reference[0] = '\0';
    free(answer->output);
    answer->output = NULL;
}

void ob_http_answer_fini(struct ob_http_answer *answer)
{
    ob_http_answer_reset(answer);
    ob_buf_fini(&answer->body);
    ob_buf_fini(&answer->text);
}

size_t ob_http_answer_body(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_http_answer *answer = data;
    size_t len = size * count, most = answer->config->keep_most;
    size_t room = most > answer->body.len ? most - answer->body.len : 0;
    ob_buf_put(&answer->body, bytes, len < room ? len : room);
    answer->received += len;
    answer->cut = answer->received > answer->config->response_most;
    return answer->cut ? 0 : len;
}

/* Visible ASCII only: an id that needs more is none. */
static void reference_set(struct ob_http_answer *answer, const char *text, size_t len)
{
    if (!len || len >= sizeof answer->reference)
        return;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return;
    memcpy(answer->reference, text, len);
    answer->reference[len] = '\0';
}

size_t ob_http_answer_header(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_http_answer *answer = data;
    const char *wanted = answer->config->reference_header;
    size_t len = size * count, name = wanted ? strlen(wanted) : 0;
    answer->header_bytes += len;
    if (len >= 5 && memcmp(bytes, "HTTP/", 5) == 0) /* after an interim answer comes another */
        answer->headed = false;
    else if (len <= 2 && (bytes[0] == '\r' || bytes[0] == '\n'))
        answer->headed = true;
    if (answer->header_bytes > HEADER_BYTES_MOST) {
        answer->garbage = true;
        return 0;
    }
    if (!wanted || len <= name || bytes[name] != ':' || strncasecmp(bytes, wanted, name) != 0)
        return len;
    const char *from = bytes + name + 1, *to = bytes + len;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == '\r' || to[-1] == '\n' || to[-1] == ' ' || to[-1] == '\t'))
        to--;
    reference_set(answer, from, (size_t)(to - from));
    return len;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* RFC 6901. Borrowed from the document; NULL when it leads nowhere. */
static json_t *follow_pointer(json_t *at, const char *pointer)
{
    while (at && *pointer == '/') {
        char token[128];
        size_t len = 0;
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            if (len + 1 >= sizeof token)
                return NULL;
            token[len++] = *pointer;
            if (pointer[0] == '~' && (pointer[1] == '0' || pointer[1] == '1'))
                token[len - 1] = *++pointer == '0' ? '~' : '/';
        }
        token[len] = '\0';
        bool digits = len > 0 && strspn(token, "0123456789") == len;
        if (json_is_array(at))
            at = digits ? json_array_get(at, strtoul(token, NULL, 10)) : NULL;
        else
            at = json_object_get(at, token);
    }
    return at;
}

static void read_json(struct ob_http_answer *answer)
{
    const struct ob_http_config *config = answer->config;
    if ((!config->capture && !config->reference_pointer) || answer->cut || !answer->body.len)
        return;
    json_t *root = json_loadb(answer->body.data, answer->body.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!root)
        return;
    json_t *found = config->reference_pointer ? follow_pointer(root, config->reference_pointer) : NULL;
    if (json_is_string(found)) {
        reference_set(answer, json_string_value(found), json_string_length(found));
    } else if (json_is_integer(found)) {
        char digits[32];
        int len = snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(found));
        reference_set(answer, digits, (size_t)len);
    }
    if (config->capture)
        answer->output = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(root);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

void ob_http_answer_describe(struct ob_http_answer *answer, const struct ob_http_end *end, const char *error,
                             struct outbox_verdict *verdict)
{
    if (end->curl == CURLE_OK && end->status >= 200 && end->status < 300)
        read_json(answer);
    verdict->reference = answer->reference[0] ? answer->reference : NULL;
    verdict->output = answer->output;
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        return;
    if (end->refused)
        ob_buf_puts(&answer->text, "the address is not public; to allow it, add it to the sink's `allow`");
    else if (end->resent)
        ob_buf_puts(&answer->text, "the connection was closed before an answer arrived; the request was not repeated");
    else if (end->flooded)
        ob_buf_puts(&answer->text, "the response is too large; the connection was closed");
    else if (end->status)
        ob_buf_printf(&answer->text, "status %d", end->status);
    else if (end->curl == CURLE_OK)
        ob_buf_puts(&answer->text, "the connection was closed within the response headers");
    if (!end->refused && !end->resent && !end->flooded && end->curl != CURLE_OK && !answer->cut) {
        ob_buf_puts(&answer->text, answer->text.len ? ", then: " : "");
        error = *error ? error : curl_easy_strerror((CURLcode)end->curl);
        if (end->curl == CURLE_OUT_OF_MEMORY && end->sent)
            error = "the response has a header line that is too long";
        ob_excerpt_put(&answer->text, error, strlen(error));
    }
    if (answer->body.len && end->status) {
        ob_buf_puts(&answer->text, ": ");
        ob_excerpt_put(&answer->text, answer->body.data,
                       answer->body.len < EXCERPT_MOST ? answer->body.len : EXCERPT_MOST);
    }
    ob_http_mask(answer->config->masks, &answer->text);
    verdict->text = ob_buf_ok(&answer->text) ? ob_buf_text(&answer->text) : NULL;
}
