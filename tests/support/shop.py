"""A store as a test of the relay sees it, whichever it is: enqueue, look, operate.

    shop.enqueue(30, keys=("a", "b", None))    # committed; the messages, as the producer knows them
    relay = Relay(tmp_path, shop.url, ...)
    shop.wait(delivered=30)

The fixture `shop` (tests/conftest.py) gives one on PostgreSQL and one on SQLite; `pg_shop` only the first.
"""
import collections
import json

from support.relay import wait_for

Sent = collections.namedtuple("Sent", "id key seq")


class Shop:
    """What both stores share. `messages` and `attempts` are the names of the views."""

    def enqueue(self, count=1, keys=(None,), topic="orders", payload=None, commit=True, dedupe_key=None, **columns):
        """So many messages, the keys in turn, in one transaction; as (id, key, seq)."""
        sent = []
        conn = self.connect()
        try:
            for i in range(count):
                fields = {"topic": topic, "key": keys[i % len(keys)], "dedupe_key": dedupe_key, **columns}
                fields["payload"] = json.dumps({"n": i} if payload is None else payload)
                sent.append(self.put(conn, fields))
            if commit:
                self.commit(conn)
        finally:
            conn.close()
        return sent

    def states(self):
        """How many messages there are in each state."""
        return dict(self.sql("SELECT status, count(*) FROM %s GROUP BY status" % self.messages))

    def wait(self, timeout=20, **states):
        """Until there are so many messages in these states, and in no other."""
        wait_for(lambda: self.states() == states, timeout, lambda: "%s (there is %s)" % (states, self.states()))

    def message(self, id, *columns):
        """These columns of a message."""
        rows = self.sql("SELECT %s FROM %s WHERE id = %s" % (", ".join(columns), self.messages, self.mark), id)
        return rows[0] if len(columns) > 1 else rows[0][0]

    def attempts(self, id):
        """The outcomes of a message's attempts: [(1, "retry"), (2, "delivered")]."""
        return self.sql("SELECT attempt_no, outcome FROM %s WHERE message_id = %s ORDER BY attempt_no"
                        % (self.attempts_view, self.mark), id)

    def all_attempts(self):
        """The same of all messages: id -> outcomes."""
        found = collections.defaultdict(list)
        for id, number, outcome in self.sql("SELECT message_id, attempt_no, outcome FROM %s ORDER BY message_id,"
                                            " attempt_no" % self.attempts_view):
            found[str(id)].append((number, outcome))
        return found


class PgShop(Shop):
    kind, mark, messages, attempts_view = "postgresql", "%s", "outbox.messages", "outbox.attempts"

    def __init__(self, db, url=None):
        self.db, self.url = db, url or db.url()

    def connect(self):
        import psycopg
        return psycopg.connect(self.url, prepare_threshold=None)

    @staticmethod
    def put(conn, fields):
        names = [name for name, value in fields.items() if value is not None]
        casts = {"payload": "::jsonb", "headers": "::jsonb", "key": "::text", "dedupe_key": "::text"}
        values = ", ".join("%s => %%s%s" % (name, casts.get(name, "")) for name in names)
        row = conn.execute("SELECT id, seq FROM outbox.enqueue(%s)" % values, [fields[name] for name in names]).fetchone()
        return Sent(str(row[0]), fields.get("key"), row[1] if fields.get("key") else None)

    @staticmethod
    def commit(conn):
        conn.commit()

    def sql(self, text, *params):
        return self.db.sql(text, *params)

    def cli(self, command, *args, **options):
        return self.db.cli(command, *args, **options)


class SqliteShop(Shop):
    kind, mark, messages, attempts_view = "sqlite", "?", "outbox_messages", "outbox_attempts"

    def __init__(self, outbox):
        self.outbox, self.url = outbox, "sqlite:" + outbox.path

    def connect(self):
        conn = self.outbox.connect()
        conn.execute("BEGIN IMMEDIATE")
        return conn

    @staticmethod
    def put(conn, fields):
        names = [name for name, value in fields.items() if value is not None]
        conn.execute("INSERT INTO outbox (%s) VALUES (%s)" % (", ".join(names), ", ".join("?" * len(names))),
                     [fields[name] for name in names])
        id, seq = conn.execute("SELECT id, seq FROM outbox_last").fetchone()
        return Sent(id, fields.get("key"), seq if fields.get("key") else None)

    @staticmethod
    def commit(conn):
        conn.execute("COMMIT")

    def sql(self, text, *params):
        return self.outbox.sql(text, *params)

    def cli(self, command, *args, **options):
        return self.outbox.cli(command, *args, **options)


class Ledger:
    """What receivers accepted, against what producers committed. Acceptances are dicts with id, attempt, key, seq, in the
    order they came."""

    def __init__(self, sent, accepted):
        self.sent = {message.id: message for message in sent}
        self.accepted = accepted
        self.times = collections.Counter(entry["id"] for entry in accepted)

    def lost(self):
        return sorted(set(self.sent) - set(self.times))

    def strangers(self):
        """Accepted, but never committed."""
        return sorted(set(self.times) - set(self.sent))

    def twice(self):
        return sorted(id for id, count in self.times.items() if count > 1)

    def duplicates(self):
        return sum(count - 1 for count in self.times.values())

    def out_of_order(self):
        """Keys whose first acceptances are not 1, 2, 3 ..."""
        firsts, seen = collections.defaultdict(list), set()
        for entry in self.accepted:
            message = self.sent.get(entry["id"])
            if message and message.key and entry["id"] not in seen:
                firsts[message.key].append(message.seq)
            seen.add(entry["id"])
        return {key: seqs for key, seqs in firsts.items() if seqs != sorted(seqs)}

    def repeated_attempts(self):
        """(id, attempt) that came twice: the number of an attempt is its own."""
        pairs = collections.Counter((entry["id"], entry["attempt"]) for entry in self.accepted)
        return sorted(pair for pair, count in pairs.items() if count > 1)

    def check(self, duplicates=False):
        """Nothing lost, nothing made up, order kept, attempt numbers used once; duplicates only where they may be."""
        assert self.lost() == []
        assert self.strangers() == []
        assert self.out_of_order() == {}
        assert self.repeated_attempts() == []
        if not duplicates:
            assert self.twice() == []
        return self
