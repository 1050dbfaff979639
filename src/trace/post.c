/* post.c - see post.h. The only file of this room that knows libcurl. */
#include "trace/post.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "trace/otlp.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_CURL
#include <curl/curl.h>

enum { ANSWER_MOST = 64 * 1024, AFTER_MOST_S = 3600 };

struct ob_post {
    CURL *easy;
    struct curl_slist *headers;
    const struct ob_post_part *parts; /* of the request under way */
    size_t sent;
    struct ob_buf answer;
    bool (*stop)(void *ctx);
    void *ctx;
};

/* ---- the address ---- */

static char *part_of(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

enum outbox_code ob_post_url(const char *endpoint, char **out, struct outbox_error *err)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *user = NULL, *path = NULL, *full = NULL;
    *out = NULL;
    enum outbox_code code = url ? OUTBOX_OK : ob_error_nomem(err);
    if (!code && curl_url_set(url, CURLUPART_URL, endpoint, 0) == CURLUE_OK) {
        scheme = part_of(url, CURLUPART_SCHEME);
        user = part_of(url, CURLUPART_USER);
        path = part_of(url, CURLUPART_PATH);
    }
    if (!code && user)
        code = ob_error_set(err, OUTBOX_INVALID, "must not contain a user or password: use traces.headers");
    else if (!code && (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)))
        code = ob_error_set(err, OUTBOX_INVALID, "must be a URL of http or https, such as http://127.0.0.1:4318");
    if (!code && (!path || strcmp(path, "/") == 0))
        curl_url_set(url, CURLUPART_PATH, "/v1/traces", 0);
    if (!code) {
        full = part_of(url, CURLUPART_URL);
        *out = full ? ob_strdup(full) : NULL;
        code = *out ? OUTBOX_OK : ob_error_nomem(err);
    }
    curl_free(scheme);
    curl_free(user);
    curl_free(path);
    curl_free(full);
    curl_url_cleanup(url);
    return code;
}

/* ---- life ---- */

static size_t on_more(char *to, size_t size, size_t count, void *ctx)
{
    struct ob_post *post = ctx;
    size_t room = size * count, used = 0, before = 0;
    for (int i = 0; i < 2; before += post->parts[i++].len) {
        size_t from = post->sent > before ? post->sent - before : 0;
        size_t left = from < post->parts[i].len ? post->parts[i].len - from : 0,
               take = left < room - used ? left : room - used;
        if (take)
            memcpy(to + used, (const char *)post->parts[i].data + from, take);
        used += take;
        post->sent += take;
    }
    return used;
}

/* libcurl begins again on a new connection when the one that it kept is gone. */
static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct ob_post *post = ctx;
    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    post->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_answer(char *data, size_t size, size_t count, void *ctx)
{
    struct ob_post *post = ctx;
    if (post->answer.len + size * count > ANSWER_MOST)
        return 0;
    ob_buf_put(&post->answer, data, size * count);
    return size * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct ob_post *post = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return post->stop && post->stop(post->ctx);
}

static bool add_header(struct ob_post *post, const char *name, const char *value)
{
    struct ob_buf line = OB_BUF_INIT;
    ob_buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *grown = ob_buf_ok(&line) ? curl_slist_append(post->headers, ob_buf_text(&line)) : NULL;
    ob_buf_fini(&line);
    post->headers = grown ? grown : post->headers;
    return grown != NULL;
}

static bool set_options(struct ob_post *post, const struct ob_post_settings *settings)
{
    CURL *easy = post->easy;
    bool ok = add_header(post, "Content-Type", "application/x-protobuf") && add_header(post, "Expect", "");
    for (size_t i = 0; i < settings->header_count; i++)
        ok = ok && add_header(post, settings->headers[i].name, settings->headers[i].value);
    ok = ok && curl_easy_setopt(easy, CURLOPT_URL, settings->url) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_USERAGENT, "outbox") == CURLE_OK;
    ok = ok && (!settings->ca || curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca) == CURLE_OK);
    long limit_ms = (long)(settings->timeout_us / 1000);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limit_ms > 0 ? limit_ms : 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* as for sinks: none is taken from the environment */
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_more);
    curl_easy_setopt(easy, CURLOPT_READDATA, post);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, post);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, post);
    return ok;
}

enum outbox_code ob_post_open(const struct ob_post_settings *settings, struct ob_post **out, struct outbox_error *err)
{
    struct ob_post *post = ob_calloc(1, sizeof *post);
    *out = NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (post)
        post->easy = curl_easy_init();
    if (!post || !post->easy || !set_options(post, settings)) {
        ob_post_close(post);
        return ob_error_nomem(err);
    }
    *out = post;
    return OUTBOX_OK;
}

void ob_post_close(struct ob_post *post)
{
    if (!post)
        return;
    curl_easy_cleanup(post->easy);
    curl_slist_free_all(post->headers);
    ob_buf_fini(&post->answer);
    ob_free(post);
}

/* ---- a request ---- */

/* libcurl reads both forms, seconds and a date. */
static int64_t wait_of(struct ob_post *post)
{
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(post->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds <= 0)
        return -1;
    return (int64_t)(seconds < AFTER_MOST_S ? seconds : AFTER_MOST_S) * 1000000;
}

static void judge(struct ob_post *post, long status, struct ob_post_answer *answer)
{
    if (status >= 200 && status < 300) {
        answer->outcome = OB_POST_ACCEPTED;
        answer->rejected = ob_otlp_rejected(post->answer.data, post->answer.len, answer->text, sizeof answer->text);
        return;
    }
    bool again = status == 429 || status == 502 || status == 503 || status == 504;
    answer->outcome = again ? OB_POST_AGAIN : OB_POST_REFUSED;
    answer->after_us = again ? wait_of(post) : -1;
    snprintf(answer->text, sizeof answer->text, "the collector answers with HTTP status %ld", status);
}

void ob_post_send(struct ob_post *post, const struct ob_post_part parts[2], bool (*stop)(void *ctx), void *ctx,
                  struct ob_post_answer *answer)
{
    long status = 0;
    *answer = (struct ob_post_answer){.after_us = -1};
    post->stop = stop;
    post->ctx = ctx;
    ob_buf_reset(&post->answer);
    post->parts = parts;
    post->sent = 0;
    curl_easy_setopt(post->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(parts[0].len + parts[1].len));
    CURLcode result = curl_easy_perform(post->easy);
    curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
    /* An answer that is too long or breaks off has its status all the same, but 200 is then not certain. */
    if (result == CURLE_OK || (status >= 300 && result == CURLE_WRITE_ERROR)) {
        judge(post, status, answer);
        return;
    }
    answer->outcome = OB_POST_AGAIN;
    snprintf(answer->text, sizeof answer->text, "%s", curl_easy_strerror(result));
}

#else

enum outbox_code ob_post_url(const char *endpoint, char **out, struct outbox_error *err)
{
    (void)endpoint;
    *out = NULL;
    return ob_error_set(err, OUTBOX_UNSUPPORTED, "this build cannot export traces: it was made without libcurl");
}

enum outbox_code ob_post_open(const struct ob_post_settings *settings, struct ob_post **out, struct outbox_error *err)
{
    (void)settings;
    *out = NULL;
    return ob_error_set(err, OUTBOX_UNSUPPORTED, "this build cannot export traces: it was made without libcurl");
}

void ob_post_close(struct ob_post *post)
{
    (void)post;
}

void ob_post_send(struct ob_post *post, const struct ob_post_part parts[2], bool (*stop)(void *ctx), void *ctx,
                  struct ob_post_answer *answer)
{
    (void)post, (void)parts, (void)stop, (void)ctx;
    *answer = (struct ob_post_answer){.outcome = OB_POST_REFUSED, .after_us = -1};
}
#endif
