#!/usr/bin/env python3
"""The smallest worker: claims, delivers, says how it went. SIGTERM ends it when the message in hand is done.

    python3 worker.py postgresql://worker@localhost/shop [TOPIC...]

The connection is in autocommit: a claim must be committed before anything is delivered.
"""
import os
import signal
import socket
import sys
import threading

import psycopg
from psycopg.rows import dict_row

DELIVERED, RETRY, RELEASED = 1, 2, 8
NAME = "%s-%d" % (socket.gethostname(), os.getpid())  # no other worker may have it


def deliver(msg):
    """Yours: send it within the lease. Raise when it failed. The receiver drops duplicates by the id."""
    if "fail" in msg["topic"]:
        raise RuntimeError("the receiver is down")
    print("delivered %s %s %s" % (msg["id"], msg["topic"], msg["payload"]), flush=True)


def attempt(msg, stop):
    """(outcome, code, error)"""
    if stop.is_set():
        return RELEASED, None, None  # nothing was sent, so nothing is spent
    try:
        deliver(msg)
        return DELIVERED, None, None
    except Exception as error:
        return RETRY, type(error).__name__, str(error)


def main(url, topics):
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as conn:
        while not stop.is_set():
            batch = conn.execute("select * from outbox.claim(%s, 20, '30 s', topics => %s)", (NAME, topics)).fetchall()
            outcomes = [attempt(msg, stop) for msg in batch]
            if not batch:
                stop.wait(1)
                continue
            settled = conn.execute(
                "select * from outbox.settle(%s, %s, %s, %s::text[], %s::text[])",
                ([msg["id"] for msg in batch], [msg["token"] for msg in batch], *map(list, zip(*outcomes))))
            for row in settled:
                if row["result"] != "ok":  # somebody else has it: never nack it
                    print("lease lost: %s" % row["id"], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or None)
