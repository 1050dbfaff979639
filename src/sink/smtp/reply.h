/* reply.h - what an SMTP server answered, how far a mail got, and what that means for the message.
 *
 * libcurl does not expose the text of replies and returns one error for many refusals, but passes every line of the server
 * to CURLOPT_HEADERFUNCTION. So the replies are read there and counted from the moment the mail begins: the first is about
 * MAIL, the second about RCPT, the third about DATA, the fourth about the mail itself. The verdict depends on the three
 * digits and the enhanced code after them (RFC 3463), never on the text. No I/O here. */
#ifndef OB_SINK_SMTP_REPLY_H
#define OB_SINK_SMTP_REPLY_H

#include <outbox/sink.h>

/* How far a mail got: the last step that the server was asked for. */
enum ob_smtp_stage {
    OB_SMTP_CONNECT, /* greeting, EHLO, STARTTLS, AUTH */
    OB_SMTP_MAIL,
    OB_SMTP_RCPT,
    OB_SMTP_DATA,
    OB_SMTP_BODY, /* some of the mail was sent, but not its end */
    OB_SMTP_END,  /* all of it may have been sent */
};

struct ob_smtp_reply {
    int code;           /* of the last reply; 0: none */
    int enhanced[3];    /* 5.1.1; 0.0.0: none */
    int replies;        /* complete replies since the mail began */
    bool begun;         /* the mail has begun */
    bool authenticated; /* a 235 came on this connection, since the reset */
    char text[1000];    /* of the last reply, its lines joined */
    bool within;        /* inside a reply of several lines */
};

/* For the next mail; resets `authenticated` too. */
void ob_smtp_reply_reset(struct ob_smtp_reply *reply);
/* A line from the server, with or without its CRLF. */
void ob_smtp_reply_line(struct ob_smtp_reply *reply, const char *line, size_t len);
/* If the last reply is a refusal, the stage it was about; if not, the stage whose reply was awaited. */
enum ob_smtp_stage ob_smtp_reply_stage(const struct ob_smtp_reply *reply, bool all_left);
/* Whether the last reply is complete, and 4yz or 5yz. */
bool ob_smtp_reply_refuses(const struct ob_smtp_reply *reply);

struct ob_smtp_end {
    int curl; /* a CURLcode */
    enum ob_smtp_stage stage;
    const struct ob_smtp_reply *reply;
    int64_t greylist_us; /* how long to wait if the server says to try later */
    const char *error;   /* libcurl's error text; may be "" */
    bool starved;        /* this process has no descriptor or no memory left for a connection */
};

enum { OB_SMTP_CODE = 40 };

/* verdict borrows code, and texts of end. */
void ob_smtp_judge(const struct ob_smtp_end *end, char code[OB_SMTP_CODE], struct outbox_verdict *verdict);
/* The server's own id of a mail that it accepted, found in its reply; false if there is none. */
bool ob_smtp_reference(const struct ob_smtp_reply *reply, char *out, size_t size);

#endif
