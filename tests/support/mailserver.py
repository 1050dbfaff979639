"""A mail server on loopback (aiosmtpd) that answers as a test wants, and keeps what it took.

    with MailServer() as server:
        server.say["rcpt"] = "550 5.1.1 nobody of that name"
        drive("smtp", server.options(), [{"topic": "a", "recipient": "x@example.org", "payload": {...}}])

say maps a stage (greeting, ehlo, starttls, auth, mail, rcpt, data, end, noop, quit) to what is said there: a reply, DROP,
RESET, HANG, a list of these for one call after the other (the last stays; None is the usual answer), or a function of the
recipient.
"""
import asyncio
import contextlib
import email
import email.policy
import socket
import struct
import threading

from aiosmtpd.smtp import SMTP, AuthResult

DROP, RESET, HANG = object(), object(), object()


def text_of(part):
    """Of a part, with plain line ends and without the last one."""
    return part.get_payload(decode=True).decode().replace("\r\n", "\n").removesuffix("\n")


class Mail:
    def __init__(self, connection, envelope):
        self.connection = connection
        self.sender = envelope.mail_from
        self.sender_options = envelope.mail_options
        self.recipients = list(envelope.rcpt_tos)
        self.data = envelope.original_content
        self.message = email.message_from_bytes(self.data, policy=email.policy.default)

    def header(self, name):
        values = self.message.get_all(name, [])
        assert len(values) <= 1, (name, values)
        return values[0] if values else None

    def text(self, kind="plain"):
        return text_of(self.message.get_body((kind,)))


class Session(SMTP):
    """One connection."""

    def __init__(self, test, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.test = test
        self.greeted = False
        self.number = 0
        self.lines = []

    def connection_made(self, transport):
        if not self.number:  # STARTTLS comes by here again
            self.number = self.test.opened()
        super().connection_made(transport)

    def connection_lost(self, error):
        self.test.closed()
        super().connection_lost(error)

    async def act(self, stage):
        """The reply that the test wants here, or None."""
        wish = self.test.wish(stage, self.envelope)
        if wish is DROP:
            self.transport.close()
        elif wish is RESET:
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        if wish in (DROP, RESET, HANG):
            await asyncio.sleep(3600)
        return wish

    async def push(self, status):
        if not self.greeted:
            self.greeted = True
            status = await self.act("greeting") or status
        await super().push(status)
        if isinstance(status, str) and status.startswith("421"):
            self.transport.close()

    async def smtp_EHLO(self, hostname):
        self.lines.append("EHLO")
        wish = await self.act("ehlo")
        await (self.push(wish) if wish else super().smtp_EHLO(hostname))

    async def smtp_STARTTLS(self, arg):
        wish = await self.act("starttls")
        await (self.push(wish) if wish else super().smtp_STARTTLS(arg))

    async def smtp_AUTH(self, arg):
        wish = await self.act("auth")
        await (self.push(wish) if wish else super().smtp_AUTH(arg))

    async def smtp_DATA(self, arg):
        wish = await self.act("data")
        await (self.push(wish) if wish else super().smtp_DATA(arg))

    async def smtp_NOOP(self, arg):
        self.lines.append("NOOP")
        wish = await self.act("noop")
        await (self.push(wish) if wish else super().smtp_NOOP(arg))

    async def smtp_QUIT(self, arg):
        self.lines.append("QUIT")
        wish = await self.act("quit")
        await (self.push(wish) if wish else super().smtp_QUIT(arg))


class Handler:
    def __init__(self, server):
        self.server = server

    async def handle_MAIL(self, smtp, session, envelope, address, options):
        smtp.lines.append("MAIL")
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await smtp.act("mail") or "250 2.1.0 OK"

    async def handle_RCPT(self, smtp, session, envelope, address, options):
        envelope.rcpt_tos.append(address)
        wish = await smtp.act("rcpt")
        if wish:
            envelope.rcpt_tos.pop()
        return wish or "250 2.1.5 OK"

    async def handle_DATA(self, smtp, session, envelope):
        mail = Mail(smtp.number, envelope)
        self.server.seen.append(mail)
        wish = await smtp.act("end")
        if not wish or wish.startswith("2"):
            self.server.mails.append(mail)
        return wish or "250 2.0.0 Ok: queued as Q%08X" % len(self.server.mails)


class MailServer:
    def __init__(self, tls=None, implicit=False, auth=None, port=0, **smtp_options):
        self.say = {}
        self.mails, self.seen, self.sessions = [], [], []  # taken; and all that came whole
        self.connections = self.open = self.most_open = 0
        self.implicit, self.tls = implicit, tls
        self.loop = asyncio.new_event_loop()
        self._options = {"enable_SMTPUTF8": True, "ident": "test", "hostname": "mail.test", "loop": self.loop,
                         **smtp_options}
        if tls and not implicit:
            self._options["tls_context"] = tls
        if auth:
            self._options.update(authenticator=self._judge(auth), auth_required=True, auth_require_tls=False)
        self._handler = Handler(self)
        coming = self.loop.create_server(self._session, "127.0.0.1", port, ssl=tls if implicit else None)
        self._server = self.loop.run_until_complete(coming)
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    @staticmethod
    def _judge(auth):
        def judge(_server, _session, _envelope, _mechanism, data):
            pair = (getattr(data, "login", b"").decode(), getattr(data, "password", b"").decode())
            return AuthResult(success=pair == auth, handled=False)
        return judge

    def _session(self):
        session = Session(self, self._handler, **self._options)
        self.sessions.append(session)
        return session

    def opened(self):
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        return self.connections

    def closed(self):
        self.open -= 1

    def wish(self, stage, envelope):
        wish = self.say.get(stage)
        if callable(wish):
            return wish(envelope.rcpt_tos[-1] if envelope and envelope.rcpt_tos else None)
        if isinstance(wish, list):
            return wish.pop(0) if len(wish) > 1 else wish[0]
        return wish

    def url(self):
        return "%s://127.0.0.1:%d" % ("smtps" if self.implicit else "smtp", self.port)

    def options(self, **more):
        plain = {} if self.tls else {"tls.mode": "none"}
        return {"url": self.url(), "from": "Shop <shop@example.org>", "ehlo": "client.test", **plain, **more}

    def close(self):
        if self.loop.is_closed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(10)
        finally:  # a loop that goes on would keep the whole run of tests from ending
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    async def _end(self):
        self._server.close()
        for session in self.sessions:
            with contextlib.suppress(AttributeError):  # Python 3.11: a TLS transport that was closed already
                if session.transport:
                    session.transport.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
