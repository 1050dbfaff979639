/* mask.c - see mask.h. */
#include "sink/http/mask.h"

#include "sink/curl/excerpt.h"

#include <string.h>

enum {
    WHOLE_LEAST = 8, /* a path, a query or a header: shorter ones hold no key, and are words that errors need */
    PART_LEAST = 12  /* a segment of a path */
};

static bool add(struct curl_slist **masks, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*masks, text);
    if (longer)
        *masks = longer;
    return longer;
}

/* As it is written, and as a receiver reads it. */
static bool add_part(struct curl_slist **masks, const char *from, size_t len, size_t least)
{
    struct ob_buf part = OB_BUF_INIT;
    bool ok = true;
    if (len < least)
        return true;
    ob_buf_put(&part, from, len);
    ok = ob_buf_ok(&part) && add(masks, ob_buf_text(&part));
    if (ok && memchr(from, '%', len)) {
        char *plain = curl_easy_unescape(NULL, ob_buf_text(&part), 0, NULL);
        ok = plain && add(masks, plain);
        curl_free(plain);
    }
    ob_buf_fini(&part);
    return ok;
}

/* What lies between the marks. */
static bool add_parts(struct curl_slist **masks, const char *text, const char *marks, size_t least)
{
    bool ok = true;
    while (ok && *text) {
        size_t len = strcspn(text, marks);
        ok = add_part(masks, text, len, least);
        text += len + (text[len] != '\0');
    }
    return ok;
}

bool ob_http_mask_url(struct curl_slist **masks, const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strpbrk(host + 3, "/?") : NULL;
    const char *query = path ? strchr(path, '?') : NULL;
    if (!path)
        return true;
    size_t path_len = query ? (size_t)(query - path) : strlen(path);
    bool ok = add(masks, url) && add_part(masks, path, strlen(path), WHOLE_LEAST) &&
              add_part(masks, path, path_len, WHOLE_LEAST);
    struct ob_buf segments = OB_BUF_INIT;
    ob_buf_put(&segments, path, path_len);
    ok = ok && ob_buf_ok(&segments) && add_parts(masks, ob_buf_text(&segments), "/", PART_LEAST);
    ob_buf_fini(&segments);
    if (ok && query)
        ok = add_part(masks, query + 1, strlen(query + 1), WHOLE_LEAST) &&
             add_parts(masks, query + 1, "&=;", WHOLE_LEAST);
    return ok;
}

bool ob_http_mask_value(struct curl_slist **masks, const char *value, bool secret)
{
    const char *word = strrchr(value, ' ');
    size_t least = secret ? 1 : WHOLE_LEAST;
    return add_part(masks, value, strlen(value), least) &&
           (!word || add_part(masks, word + 1, strlen(word + 1), least));
}

void ob_http_mask(const struct curl_slist *masks, struct ob_buf *text)
{
    for (; masks; masks = masks->next)
        ob_excerpt_mask(text, masks->data);
}
