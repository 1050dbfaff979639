#!/usr/bin/env python3
"""A worker: claims a message, delivers it, settles it. Start several of them for more speed.

SIGTERM ends it after the message in hand. A broken connection ends it too: let a supervisor start it again.

    pip install psycopg zstandard    # Debian: apt install python3-psycopg python3-zstandard
    python3 worker.py postgresql://worker@localhost/shop [TOPIC...]
"""
import contextlib
import json
import os
import signal
import socket
import sys
import threading

import psycopg
from psycopg.rows import dict_row

DELIVERED, RETRY, FAILED, BLOCKED = 1, 2, 3, 6  # outcomes of outbox.settle
LEASE = 30  # seconds; extended while a delivery takes longer
LARGEST = 64 << 20  # bytes of a payload when decompressed
NAME = "%s-%d" % (socket.gethostname(), os.getpid())  # no other worker may have it


def deliver(msg, content):
    """Yours: send it, with a time limit. content is a JSON value, or bytes of msg["content_type"]. Raise an exception when it
    failed. A crash can repeat a delivery: pass msg["id"] on, so that the receiver can drop the duplicate."""
    if "fail" in msg["topic"]:
        raise RuntimeError("the receiver is down")
    print("delivered %s %s %r" % (msg["id"], msg["topic"], content), flush=True)


class Unread(Exception):
    """The payload cannot be read: (outcome, code, error)."""


def decompress(frame):
    try:
        import zstandard
    except ImportError:  # not the fault of the message: it waits for a worker that can read it, and spends no attempt
        raise Unread(BLOCKED, "no_zstd", "this worker cannot decompress: install python3-zstandard")
    try:
        if zstandard.frame_content_size(frame) > LARGEST:
            raise Unread(FAILED, "too_large", "decompressed it has more than %d bytes" % LARGEST)
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise Unread(FAILED, "encoding", "the payload cannot be decompressed: %s" % error)


def read(msg):
    """The payload as deliver wants it."""
    if msg["body"] is None:
        return msg["payload"]  # JSON, which the driver has parsed
    if msg["encoding"] not in (None, "zstd"):
        raise Unread(BLOCKED, "unknown_encoding", "this worker does not know the encoding %s" % msg["encoding"])
    content = decompress(msg["body"]) if msg["encoding"] else bytes(msg["body"])
    if msg["content_type"] is not None:
        return content
    try:
        return json.loads(content)  # its producer compressed it, so nobody has checked yet that it is JSON
    except ValueError as error:
        raise Unread(FAILED, "not_json", "the payload is not JSON: %s" % error)


@contextlib.contextmanager
def lease_extended(conn, msg):
    """Keeps the message ours for as long as the block runs. conn is idle then, and safe to use from a second thread."""
    done = threading.Event()

    def extend():
        with contextlib.suppress(psycopg.Error):  # the settle will tell what is wrong
            while not done.wait(LEASE / 3):
                conn.execute("select outbox.extend(array[%s], array[%s::bigint], make_interval(secs => %s))",
                             (msg["id"], msg["token"], LEASE))

    thread = threading.Thread(target=extend)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def attempt(conn, msg):
    """(outcome, code, error)"""
    try:
        with lease_extended(conn, msg):
            deliver(msg, read(msg))
        return DELIVERED, None, None
    except Unread as unread:
        return unread.args
    except Exception as error:
        return RETRY, type(error).__name__, str(error)


def main(url, topics):
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # autocommit: a claim must be committed before anything is delivered
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as conn:
        while not stop.is_set():
            msg = conn.execute("select * from outbox.claim(%s, 1, make_interval(secs => %s), topics => %s)",
                               (NAME, LEASE, topics)).fetchone()
            if not msg:
                stop.wait(1)
                continue
            settled = conn.execute("select * from outbox.settle(array[%s], array[%s::bigint], array[%s::int], array[%s], array[%s])",
                                   (msg["id"], msg["token"], *attempt(conn, msg))).fetchone()
            if settled["result"] != "ok":  # another worker has it: never nack it
                print("lease lost: %s" % msg["id"], file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: worker.py URL [TOPIC...]")
    main(sys.argv[1], sys.argv[2:] or None)
