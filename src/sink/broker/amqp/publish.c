/* publish.c - what a message becomes on its way to RabbitMQ: properties, headers, body. */
#include "sink/broker/amqp/amqp_int.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static amqp_bytes_t text_bytes(const char *text)
{
    return amqp_cstring_bytes(text);
}

static amqp_bytes_t buf_bytes(const struct ob_buf *buf)
{
    return (amqp_bytes_t){.len = buf->len, .bytes = (void *)(uintptr_t)ob_buf_text(buf)};
}

static void set_properties(const struct ob_amqp *amqp, const struct ob_broker_job *job, amqp_basic_properties_t *props,
                           char expiration[24])
{
    props->_flags =
        AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
    props->delivery_mode = amqp->persistent ? 2 : 1;
    props->message_id = text_bytes(job->id);
    props->app_id = text_bytes("outbox");
    if (job->content_type[0]) {
        props->_flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        props->content_type = text_bytes(job->content_type);
    }
    if (job->correlation_id[0]) {
        props->_flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
        props->correlation_id = text_bytes(job->correlation_id);
    }
    if (job->created_at_us > 0) {
        props->_flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        props->timestamp = (uint64_t)(job->created_at_us / 1000000);
    }
    if (job->expires_at_us > 0) {
        int64_t left = (job->expires_at_us - ob_clock_wall_us()) / 1000;
        snprintf(expiration, 24, "%" PRId64, left > 0 ? left : 0);
        props->_flags |= AMQP_BASIC_EXPIRATION_FLAG;
        props->expiration = text_bytes(expiration);
    }
}

/* Of the frame that carries the properties, which cannot be divided: its own ends, class, weight, size of the body, flags;
 * texts with a byte for their length; the table of headers with four, and five more for each value. */
static size_t frame_size(const amqp_basic_properties_t *props)
{
    size_t size = 8 + 2 + 2 + 8 + 2 + 1 + 4;
    const amqp_bytes_t texts[] = {props->content_type, props->correlation_id, props->expiration, props->message_id,
                                  props->app_id};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        size += texts[i].bytes ? 1 + texts[i].len : 0;
    if (props->_flags & AMQP_BASIC_TIMESTAMP_FLAG)
        size += 8;
    for (int i = 0; i < props->headers.num_entries; i++)
        size += 1 + props->headers.entries[i].key.len + 5 + props->headers.entries[i].value.value.bytes.len;
    return size;
}

int ob_amqp_publish(struct ob_amqp *amqp, const struct ob_broker_job *job)
{
    amqp_basic_properties_t props = {0};
    char expiration[24];
    size_t count = job->headers.count;
    amqp_table_entry_t *entries = ob_calloc(count + 1, sizeof *entries);
    if (!entries)
        return OB_AMQP_SHORTAGE;
    for (size_t i = 0; i < count; i++) {
        entries[i].key = text_bytes(job->headers.at[i].name);
        entries[i].value.kind = AMQP_FIELD_KIND_UTF8;
        entries[i].value.value.bytes = text_bytes(job->headers.at[i].value);
    }
    set_properties(amqp, job, &props, expiration);
    props.headers = (amqp_table_t){(int)count, entries};
    int status = OB_AMQP_TOO_LARGE;
    if (frame_size(&props) <= (size_t)amqp_get_frame_max(amqp->state))
        status = amqp_basic_publish(amqp->state, OB_AMQP_CHANNEL, text_bytes(amqp->exchange), buf_bytes(&job->address),
                                    amqp->mandatory, 0, &props, buf_bytes(&job->body));
    ob_free(entries);
    return status;
}
