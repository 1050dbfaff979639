"""A dump that was taken in the middle of a storm, restored into a server whose transaction numbers are ahead, or far behind.

What was delivered when the dump was taken is not delivered again; everything else is, once and in order: messages of the dump, those
enqueued before anybody noticed, those of transactions that are under way during the rebase. Afterwards our numbers are
driven past the old ones: nothing comes back.
"""
import os
import re
import subprocess
import threading
import time

import psycopg

BURN = """create procedure public.burn(n bigint) language plpgsql as $$
begin
    for i in 1..n loop
        perform pg_current_xact_id();
        commit;
    end loop;
end $$"""


def tool(server, name, *args):
    subprocess.run([os.path.join(server.bindir, name), *args], check=True, stdout=subprocess.DEVNULL)


def dump(database, path):
    tool(database.server, "pg_dump", "-Fc", "-f", path, database.url())


def restore(database, path):
    tool(database.server, "pg_restore", "-d", database.url(), path)


def burn(database, numbers):
    """Uses up so many transaction numbers."""
    with database.connect(autocommit=True) as conn:
        conn.execute("set synchronous_commit = off")
        conn.execute("drop procedure if exists public.burn(bigint)")
        conn.execute(BURN)
        conn.execute("call public.burn(%s)", (numbers,))


def put_ahead(conn, far):
    """As if all that there is were of a dump of another server, whose numbers are so far ahead. No producer is under way."""
    def moved(text):
        return re.sub(r"\d+", lambda number: str(int(number.group()) + far), text)
    for shard, ident, *snapshots in conn.execute("select shard, id, before::text, upto::text from outbox.log_window").fetchall():
        conn.execute("update outbox.log_window set cluster = cluster - 1, before = %s, upto = %s where shard = %s and id = %s",
                     (*map(moved, snapshots), shard, ident))
    for table, column in (("message", "ord"), ("stream", "ord"), ("log_window", "from_ord"), ("log_window", "to_ord")):
        conn.execute("update outbox.%s set %s = (%s::text::numeric + %%s)::text::xid8 where %s between '1' and '18400000000000000000'"
                     % (table, *[column] * 3), (far,))


def next_number(conn):
    return conn.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()[0]


def enqueue(conn, key=None):
    return conn.execute("select id from outbox.enqueue('t1', '{}', key => %s, max_attempts => 1000)", (key,)).fetchone()[0]


def rebase(conn, tries=200):
    """As a relay does it: it gives up when a producer is under way, and comes again."""
    for _ in range(tries):
        try:
            return conn.execute("select outbox.rebase()").fetchone()[0]
        except psycopg.errors.LockNotAvailable:
            time.sleep(0.05)
    raise AssertionError("the rebase did not get its locks")


def drain(conn, patience=60):
    """Delivers all there is; (id, stream, seq) in the order of delivery."""
    got, nonce, until = [], time.monotonic_ns(), time.monotonic() + patience
    while time.monotonic() < until:
        nonce += 1
        shard, ident, size = conn.execute("select shard, id, size from outbox.take('drain', 100, '30 s', %s)", (nonce,)).fetchone()
        if size:
            rows = conn.execute("select id, stream, seq from outbox.window_messages where nonce = %s", (nonce,)).fetchall()
            assert len(rows) == size
            got += rows
            lost = conn.execute("select * from outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], array[0], %s::int[], "
                                "%s::uuid[], %s::int[])", (shard, ident, nonce, [1] * size, [row[0] for row in rows], [1] * size)).fetchall()
            assert lost == []
        rows = conn.execute("select id, stream, seq, token from outbox.claim('drain', 500, '30 s', run => 100, admit => false)").fetchall()
        if rows:
            got += [row[:3] for row in rows]
            conn.execute("select count(*) from outbox.settle(%s::uuid[], %s::bigint[], %s::int[])",
                         ([row[0] for row in rows], [row[3] for row in rows], [1] * len(rows)))
        if not size and not rows:
            if conn.execute("select count(*) from outbox.queue").fetchone() == (0,):
                return got
            time.sleep(0.1)
    raise AssertionError("it does not drain")


def undelivered(conn):
    return {row[0] for row in conn.execute(
        "select m.id from outbox.message m where not exists (select from outbox.attempt_stored a where a.message_id = m.id and a.outcome = 1) "
        "and not exists (select from outbox.dead d where d.id = m.id)")}


def prove(target):
    """The restored database. Returns what was found; all of VERDICT must be 0."""
    found = {}
    with target.connect(autocommit=True) as conn, target.connect() as under_way, target.connect() as numbered:
        conn.execute("delete from outbox.pause")
        found["open"], found["behind"] = conn.execute(
            "select (select count(*) from outbox.log_window where open), pg_snapshot_xmax(pg_current_snapshot()) < "
            "(select max(pg_snapshot_xmax(upto)) from outbox.log_window)").fetchone()
        for number in range(40):  # before anybody noticed
            enqueue(conn, "k%d" % (number % 7) if number % 2 else None)
        late = {enqueue(under_way, "k3"), enqueue(under_way)}
        numbered.execute("select pg_current_xact_id()")
        for call in ("select outbox.take('w', 10, '30 s', 1)", "select outbox.claim('w', 10)"):
            try:
                conn.execute(call)
                found["unnoticed"] = found.get("unnoticed", 0) + 1
            except psycopg.Error as error:
                assert error.sqlstate == "OB009", error
        wanted = undelivered(conn) | late
        threading.Timer(0.3, under_way.commit).start()
        found["moved"] = rebase(conn)
        found["needless"] = int(rebase(conn) != -1)
        queued = {row[0] for row in conn.execute("select id from outbox.queue")}
        found["queue short"], found["queue long"] = len(wanted - queued), len(queued - wanted)
        wanted |= {enqueue(numbered, "k1"), enqueue(numbered), enqueue(conn, "k2"), enqueue(conn)}
        numbered.commit()
        got = drain(conn)
        judge(found, got, wanted)
        old, = conn.execute("select max(ord)::text::bigint from outbox.message").fetchone()
        burn(target, max(0, old - next_number(conn)) + 100)
        found["again"] = len(drain(conn))
        last = [enqueue(conn, "k1"), enqueue(conn)]
        found["stuck"] = len(set(last) - {row[0] for row in drain(conn)})
        found["status"] = len(undelivered(conn))
    return found


def judge(found, got, wanted):
    ids = [row[0] for row in got]
    last, disorder = {}, 0
    for _, stream, seq in got:
        if stream is not None:
            disorder += last.get(stream, 0) >= seq
            last[stream] = seq
    found.update({"wanted": len(wanted), "lost": len(wanted - set(ids)), "unexpected": len(set(ids) - wanted),
                  "twice": len(ids) - len(set(ids)), "reordered": disorder})


VERDICT = ("unnoticed", "needless", "queue short", "queue long", "lost", "unexpected", "twice", "reordered", "again", "stuck", "status")


def bad(found):
    """Those that are not 0."""
    return {name: found[name] for name in VERDICT if found.get(name, 0) != 0}


def clean(found):
    return not bad(found)
