/* reply.h - what an SMTP server answered, how far a mail got, and what that means for the message.
 *
 * libcurl keeps the text of replies to itself and gives one error for many refusals, but every line of the server
 * passes CURLOPT_HEADERFUNCTION. So the replies are read there and counted from the moment the mail begins: the first
 * is about MAIL, the second about RCPT, the third about DATA, the fourth about the mail itself. Decided is by the
 * three digits and the enhanced code behind them (RFC 3463), never by words. No I/O here. */
#ifndef OB_SINK_SMTP_REPLY_H
#define OB_SINK_SMTP_REPLY_H

#include <outbox/sink.h>

/* How far it got: what the server was asked last. */
enum ob_smtp_stage {
    OB_SMTP_CONNECT, /* greeting, EHLO, STARTTLS, AUTH */
    OB_SMTP_MAIL,
    OB_SMTP_RCPT,
    OB_SMTP_DATA,
    OB_SMTP_BODY, /* some of the mail has left, but not its end */
    OB_SMTP_END,  /* all of it may have left */
};

struct ob_smtp_reply {
    int code;           /* of the last reply; 0: none */
    int enhanced[3];    /* 5.1.1; 0.0.0: none */
    int replies;        /* whole ones since the mail began */
    bool begun;         /* the mail */
    bool authenticated; /* a 235 came on this connection, since the reset */
    char text[1000];    /* of the last reply, its lines joined */
    bool within;        /* a reply of several lines */
};

/* For the next mail; `authenticated` is forgotten too. */
void ob_smtp_reply_reset(struct ob_smtp_reply *reply);
/* A line of the server's, with or without its CRLF. */
void ob_smtp_reply_line(struct ob_smtp_reply *reply, const char *line, size_t len);
/* What the last reply was about when it is a refusal, and what was waited for when it is not. */
enum ob_smtp_stage ob_smtp_reply_stage(const struct ob_smtp_reply *reply, bool all_left);
/* Whole, and 4yz or 5yz. */
bool ob_smtp_reply_refuses(const struct ob_smtp_reply *reply);

struct ob_smtp_end {
    int curl; /* a CURLcode */
    enum ob_smtp_stage stage;
    const struct ob_smtp_reply *reply;
    int64_t greylist_us; /* what to wait when told to come back later */
    const char *error;   /* libcurl's words; may be "" */
    bool starved;        /* this process has no descriptor or no memory left for a connection */
};

enum { OB_SMTP_CODE = 40 };

/* verdict borrows code, and texts of end. */
void ob_smtp_judge(const struct ob_smtp_end *end, char code[OB_SMTP_CODE], struct outbox_verdict *verdict);
/* The server's own name for a mail that it took, found in its reply; false when it gave none. */
bool ob_smtp_reference(const struct ob_smtp_reply *reply, char *out, size_t size);

#endif
