#!/usr/bin/env python3
"""An order is paid and the message about it is sent, or neither: both are one transaction.

    pip install psycopg          # Debian: apt install python3-psycopg
    python3 orders.py postgresql://app@localhost/shop
"""
import sys

import psycopg
from psycopg.types.json import Jsonb

CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


def in_transaction(conn, work, tries=5):
    """Runs work in a transaction; after a conflict with another one, the whole of it again."""
    while True:
        try:
            with conn.transaction():
                return work()
        except CONFLICTS:
            tries -= 1
            if tries == 0:
                raise


def pay(conn, order):
    conn.execute("insert into orders values (%s, 'paid') on conflict do nothing", (order,))
    return conn.execute(
        "select id, created, seq from outbox.enqueue(%s, %s, key => %s, dedupe_key => %s)",
        ("orders.paid", Jsonb({"order": order}),
         "order-%d" % order,   # events of one order are delivered in order
         "paid-%d" % order),   # sent once, however often this runs
    ).fetchone()


def main(url):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create table if not exists orders (id int primary key, state text not null)")
        for _ in range(2):  # the second call finds the same message
            id_, created, seq = in_transaction(conn, lambda: pay(conn, 42))
            print("paid 42: message %s, created %s, seq %d" % (id_, str(created).lower(), seq))
        try:
            with conn.transaction():
                pay(conn, 43)
                raise RuntimeError("the card was refused after all")
        except RuntimeError:
            print("rolled back 43")  # no order, no message, the dedupe key is unused


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: orders.py URL")
    main(sys.argv[1])
