/* text_line.c - see text_line.h. */
#include "sink/local/text_line.h"

#include "base/json.h"
#include "sink/common/render.h"

#include <string.h>

enum ob_text_format ob_text_line_parse(const char *word)
{
    static const char *const words[] = {"json", "logfmt", "cloudevent", "payload"};
    for (unsigned i = 0; word && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], word) == 0)
            return (enum ob_text_format)i;
    return OB_TEXT_JSON;
}

void ob_text_line_put(struct ob_buf *buf, enum ob_text_format line, const struct outbox_delivery *msg)
{
    if (line == OB_TEXT_JSON)
        ob_render_record(buf, msg);
    else if (line == OB_TEXT_LOGFMT)
        ob_render_logfmt(buf, msg);
    else if (line == OB_TEXT_CLOUDEVENT)
        ob_render_cloudevent(buf, msg, NULL);
    else if (ob_render_is_json(msg))
        ob_json_raw_line(&(struct ob_json){.buf = buf}, msg->payload, msg->payload_len);
    else
        ob_buf_put(buf, msg->payload, msg->payload_len);
    ob_buf_putc(buf, '\n');
}
