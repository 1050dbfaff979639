/* mail.c - fuzzes mails: recipient, name, text. Nothing in a message starts a header line of its own. */
#include "fuzz.h"

#include "sink/smtp/mime.h"

static void lines(const struct ob_buf *buf)
{
    for (size_t i = 0; !buf->failed && i < buf->len; i++) {
        if (buf->data[i] == '\n' && (i == 0 || buf->data[i - 1] != '\r'))
            abort();
        if (buf->data[i] == '\r' && (i + 1 == buf->len || buf->data[i + 1] != '\n'))
            abort();
    }
}

/* A header field may go on in lines that begin with a blank, and in no others. */
static void one_field(const struct ob_buf *buf)
{
    lines(buf);
    for (size_t i = 0; !buf->failed && i + 1 < buf->len; i++)
        if (buf->data[i] == '\n' && buf->data[i + 1] != ' ' && buf->data[i + 1] != '\t')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *address = fuzz_part(&input, NULL), *name = fuzz_part(&input, NULL);
    size_t len;
    char *text = fuzz_rest(&input, &len);
    struct ob_buf buf = OB_BUF_INIT;
    if (ob_mime_field(&buf, "Subject", name))
        one_field(&buf);
    ob_buf_reset(&buf);
    if (ob_mime_address_ok(address) && ob_mime_mailbox(&buf, "To", name, address))
        one_field(&buf);
    ob_buf_reset(&buf);
    if (ob_mime_parameter(&buf, "filename", name))
        one_field(&buf);
    ob_mime_domain_ok(address);
    ob_buf_reset(&buf);
    ob_mime_quoted_printable(&buf, text, len);
    lines(&buf);
    ob_buf_reset(&buf);
    ob_mime_base64(&buf, text, len);
    lines(&buf);
    ob_buf_fini(&buf);
    free(address);
    free(name);
    free(text);
    return 0;
}
