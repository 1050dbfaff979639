/* notify.c - see notify.h. */
#include "daemon/notify.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool copy(char to[512], const char *from)
{
    snprintf(to, 512, "%s", from ? from : "");
    return *to;
}

void ob_notify_init(struct ob_notify *notify, const struct ob_config *config)
{
    *notify = (struct ob_notify){
        .on = config->notify.sink != NULL,
        .terms = {.every_us = config->notify.every_us, .minimum = config->notify.minimum},
    };
    copy(notify->recipient, config->notify.recipient);
    copy(notify->name_space, config->notify.name_space);
    copy(notify->topic, config->notify.topic);
}

struct digest {
    struct ob_buf text, buf;
    struct ob_json groups; /* writes to buf */
};

static void put_text(struct ob_json *json, const char *key, const char *text)
{
    ob_json_key(json, key);
    if (text)
        ob_json_string(json, text);
    else
        ob_json_null(json);
}

static bool add_group(void *ctx, const struct ob_group_row *row)
{
    struct digest *digest = ctx;
    struct ob_json *json = &digest->groups;
    ob_buf_printf(&digest->text, "\n%" PRId64 " x %s%s%s\n  topics %s; outbox list group:%s\n", row->count,
                  row->code ? row->code : "", row->code && row->sample ? ": " : "", row->sample ? row->sample : "",
                  row->topics ? row->topics : "[]", row->fingerprint);
    ob_json_object(json);
    put_text(json, "fingerprint", row->fingerprint);
    put_text(json, "code", row->code);
    put_text(json, "sample", row->sample);
    ob_json_key(json, "count"), ob_json_int(json, row->count);
    ob_json_key(json, "topics");
    ob_json_raw_line(json, row->topics ? row->topics : "[]", row->topics ? strlen(row->topics) : 2);
    put_text(json, "message_id", row->message_id);
    ob_json_end(json);
    return true;
}

/* {"subject", "text"} is what mail and chat sinks take; the rest is for programs. */
static void compose(struct ob_buf *payload, struct digest *digest, const struct ob_news *news, const char *store_name)
{
    struct ob_json json;
    struct ob_buf line = OB_BUF_INIT;
    char since[OB_CLOCK_TEXT];
    ob_clock_format(news->since_us, since);
    ob_json_init(&json, payload);
    ob_json_object(&json);
    ob_buf_printf(&line, "Outbox %s: %" PRId64 " dead letter%s", store_name, news->total, news->total == 1 ? "" : "s");
    put_text(&json, "subject", ob_buf_text(&line));
    ob_buf_printf(&line, " since %.19sZ\n%s\nTo look at them: outbox list status:dead\nTo group them: outbox errors\n",
                  since, ob_buf_text(&digest->text));
    put_text(&json, "text", ob_buf_text(&line));
    put_text(&json, "store", store_name);
    ob_json_key(&json, "count"), ob_json_int(&json, news->total);
    put_text(&json, "since", since);
    put_text(&json, "command", "outbox list status:dead");
    ob_json_key(&json, "groups");
    ob_json_raw_line(&json, ob_buf_text(&digest->buf), digest->buf.len);
    ob_json_end(&json);
    ob_buf_fini(&line);
}

static ob_code tell(struct ob_store *store, const struct ob_notify *notify, const char *store_name, int64_t *told,
                    struct outbox_error *err)
{
    struct digest digest = {.text = OB_BUF_INIT, .buf = OB_BUF_INIT};
    struct ob_buf payload = OB_BUF_INIT;
    struct ob_news news = {.total = 0};
    struct ob_news_terms terms = notify->terms;
    terms.name_space = notify->name_space[0] ? notify->name_space : NULL;
    terms.topic = notify->topic[0] ? notify->topic : NULL;
    ob_json_init(&digest.groups, &digest.buf);
    ob_json_array(&digest.groups);
    ob_code code = store->ops->dead_news(store, &terms, &news, add_group, &digest, err);
    ob_json_end(&digest.groups);
    if (!code && news.total) {
        compose(&payload, &digest, &news, store_name);
        code = ob_buf_ok(&payload) && ob_buf_ok(&digest.text)
                   ? store->ops->tell_news(store, ob_buf_text(&payload),
                                           notify->recipient[0] ? notify->recipient : NULL, news.upto, err)
                   : ob_error_nomem(err);
    }
    *told = code ? 0 : news.total;
    ob_free(news.upto);
    ob_buf_fini(&payload);
    ob_buf_fini(&digest.text);
    ob_buf_fini(&digest.buf);
    return code;
}

ob_code ob_notify_round(struct ob_store *store, const struct ob_notify *notify, const char *store_name, int64_t *told,
                        struct outbox_error *err)
{
    struct outbox_error ignored;
    *told = 0;
    ob_code code = store->ops->begin(store, err);
    if (code)
        return code;
    code = tell(store, notify, store_name, told, err);
    if (!code)
        return store->ops->commit(store, err);
    (void)!store->ops->rollback(store, &ignored);
    return code;
}
