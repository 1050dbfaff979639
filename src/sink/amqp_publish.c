/* amqp_publish.c - what a message becomes on its way to RabbitMQ: properties, headers, body. */
#include "sink/amqp_int.h"

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

static void set_properties(const struct ob_amqp *amqp, const struct ob_parcel *parcel, amqp_basic_properties_t *props,
                           char expiration[24])
{
    props->_flags =
        AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
    props->delivery_mode = amqp->persistent ? 2 : 1;
    props->message_id = text_bytes(parcel->id);
    props->app_id = text_bytes("outbox");
    if (parcel->content_type[0]) {
        props->_flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        props->content_type = text_bytes(parcel->content_type);
    }
    if (parcel->correlation_id[0]) {
        props->_flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
        props->correlation_id = text_bytes(parcel->correlation_id);
    }
    if (parcel->created_at_us > 0) {
        props->_flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        props->timestamp = (uint64_t)(parcel->created_at_us / 1000000);
    }
    if (parcel->expires_at_us > 0) {
        int64_t left = (parcel->expires_at_us - ob_clock_wall_us()) / 1000;
        snprintf(expiration, 24, "%" PRId64, left > 0 ? left : 0);
        props->_flags |= AMQP_BASIC_EXPIRATION_FLAG;
        props->expiration = text_bytes(expiration);
    }
}

int ob_amqp_publish(struct ob_amqp *amqp, const struct ob_parcel *parcel)
{
    amqp_basic_properties_t props = {0};
    char expiration[24];
    size_t count = parcel->headers.count;
    amqp_table_entry_t *entries = ob_calloc(count + 1, sizeof *entries);
    if (!entries)
        return AMQP_STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        entries[i].key = text_bytes(parcel->headers.at[i].name);
        entries[i].value.kind = AMQP_FIELD_KIND_UTF8;
        entries[i].value.value.bytes = text_bytes(parcel->headers.at[i].value);
    }
    set_properties(amqp, parcel, &props, expiration);
    props.headers = (amqp_table_t){(int)count, entries};
    int status = amqp_basic_publish(amqp->state, OB_AMQP_CHANNEL, text_bytes(amqp->exchange),
                                    buf_bytes(&parcel->address), amqp->mandatory, 0, &props, buf_bytes(&parcel->body));
    ob_free(entries);
    return status;
}
