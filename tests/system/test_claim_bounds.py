"""What a claim costs and brings is bounded, whatever is in the store.

Proves: V15 (bounded memory, whatever the size of payloads), M20 (what is due is found by an index: with many topics, with many
of them paused, and while an old transaction keeps dead entries), M7 (a worker that crashes takes no other message along), S14
(claims come through a slow link).
"""
import resource
import socket
import threading
import time

import pytest

from support.receiver import Hook, status
from support.relay import Relay, read_ledger, wait_for
from support.under import UNDER

MB = 1000 * 1000


# ---- bytes ----


def fill_large(shop, count):
    if shop.kind == "postgresql":
        shop.db.sql("select count(outbox.enqueue_bytes('t', convert_to(repeat('x', %d), 'UTF8'), 'text/plain'))"
                    " from generate_series(1, %d)" % (MB, count))
    else:
        with shop.outbox.connect() as conn:
            conn.execute("begin")
            for _ in range(count):
                conn.execute("insert into outbox (topic, payload, content_type) values ('t', zeroblob(?), 'text/plain')", [MB])
            conn.execute("commit")


def peak_mib(relay):
    with open("/proc/%d/status" % relay.process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def test_large_payloads_in_little_memory(shop, tmp_path):
    """V15: many payloads of 1 MB, with the settings as they come: the relay holds some of them at a time, and needs no more
    address space than it was given."""
    count = 200
    fill_large(shop, count)
    ledger = tmp_path / "ledger"
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "stub", "ledger": str(ledger)}}, [{"sink": "out"}])
    with relay.running():
        if not UNDER and "asan" not in relay.log():
            resource.prlimit(relay.process.pid, resource.RLIMIT_AS, (1 << 29, 1 << 29))
        wait_for(lambda: len(read_ledger(ledger)) >= count, 60, what=lambda: relay.log()[-2000:])
        peak = peak_mib(relay)
    assert shop.states() == {"delivered": count}
    if not UNDER:
        assert peak <= 128, "peak %d MiB" % peak


class SlowLink:
    """A TCP proxy to a server that lets so many bytes a second through."""

    def __init__(self, port, rate):
        self.port_behind, self.rate = port, rate
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port_behind))
            threading.Thread(target=self.pump, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, self.rate), daemon=True).start()

    @staticmethod
    def pump(source, drain, rate):
        try:
            while data := source.recv(32768):
                drain.sendall(data)
                if rate:
                    time.sleep(len(data) / rate)
        except OSError:
            pass
        for sock in (source, drain):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def test_a_link_too_slow_for_a_whole_claim(pg_shop, tmp_path):
    """S14 V15: a claim that does not come through in time is not made again at the same size."""
    count = 10
    fill_large(pg_shop, count)
    link = SlowLink(pg_shop.db.server.port, 2.5 * MB)
    ledger = tmp_path / "ledger"
    url = "postgresql://postgres@127.0.0.1:%d/%s" % (link.port, pg_shop.db.name)
    relay = Relay(tmp_path, url, {"out": {"kind": "stub", "ledger": str(ledger)}}, [{"sink": "out"}], relay={"lease": "3s"})
    try:
        with relay.running():
            wait_for(lambda: len(read_ledger(ledger)) >= count, 60, what=lambda: relay.log()[-2000:])
            wait_for(lambda: pg_shop.states() == {"delivered": count}, 20)
    finally:
        link.close()
    assert "store unavailable" in relay.log()


# ---- a crash loop ----


def test_a_crash_loop_takes_nobody_along(shop, tmp_path):
    """M7: one message takes the relay down, again and again, with all that is out beside it. Only that message dies."""
    poison = str(shop.enqueue(1, max_attempts=3)[0].id)
    shop.enqueue(24, max_attempts=3)

    def kill(request, sock):
        if request.header("webhook-id") == poison:
            time.sleep(0.2)  # the others are on their way
            relay.process.kill()
            return False
        time.sleep(0.05)
        return status(204)(request, sock)

    hook = Hook(kill)
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "http", "url": hook.url(), "allow": "127.0.0.0/8", "concurrency": 8}},
                  [{"sink": "out"}], relay={"lease": "1s", "poll": "50ms"})
    try:
        end = time.monotonic() + 90
        while set(shop.states()) - {"delivered", "dead"} and time.monotonic() < end:
            relay.start("--until-empty")
            relay.wait(60)
            time.sleep(0.1)
    finally:
        relay.kill()
        hook.close()
    assert shop.states() == {"delivered": 24, "dead": 1}
    assert [outcome for _, outcome in shop.all_attempts()[poison]] == ["lost"] * 3


# ---- many topics, and dead entries ----


FILL = ["insert into outbox.lane (id, namespace, topic) select outbox.lane_id('default', 't' || i), 'default', 't' || i"
        " from generate_series(1, %(topics)s) i",
        "insert into outbox.message (id, created_at, priority, max_attempts, namespace, topic, payload)"
        " select ('018f0000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, now(), 4, 5, 'default',"
        "        't' || (i %% %(topics)s + 1), '1' from generate_series(1, %(count)s) i",
        "insert into outbox.queue (id, lane, due, max_attempts, prio, shard)"
        " select m.id, outbox.lane_id('default', m.topic),"
        "        now() - interval '1 h' + row_number() over (order by m.id) * interval '1 ms', 5, 4, -1 from outbox.message m",
        "analyze outbox.queue, outbox.message, outbox.lane, outbox.pause"]


def fill(db, topics, count):
    with db.connect(autocommit=True) as conn:
        for step in FILL:
            conn.execute(step % {"topics": topics, "count": count})


class Claimer:
    """A session that claims, and tells how many rows and entries each claim has read."""

    def __init__(self, db):
        self.conn = db.connect()

    def read(self):
        return int(self.conn.execute(
            "select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_all_tables"
            "         where schemaname = 'outbox')"
            "     + (select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index i join pg_class c on c.oid = i.indrelid"
            "         where c.relnamespace = 'outbox'::regnamespace)").fetchone()[0])

    def claim(self, limit):
        before = self.read()  # what was not reported yet is counted too
        count = self.conn.execute("select count(*) from outbox.claim('w', %s)", [limit]).fetchone()[0]
        read = self.read() - before
        self.conn.commit()
        return count, read

    def reads(self, limit, times=9):
        """The median of what claims read, after the first ones."""
        some = [self.claim(limit) for _ in range(times + 3)][3:]
        return sorted(read for _, read in some)[times // 2], sum(count for count, _ in some) / times


def test_many_topics(db):
    """M20: a claim reads as much with twenty thousand topics that have work as with one."""
    fill(db, 1, 2000)
    one, brought = Claimer(db).reads(100)
    assert brought == 100
    with db.connect(autocommit=True) as conn:
        conn.execute("truncate outbox.queue, outbox.message, outbox.lane")
    fill(db, 20000, 20000)
    claimer = Claimer(db)
    assert claimer.claim(100)[1] < 3 * one  # the first too, though it has no memory
    many, brought = claimer.reads(100)
    assert brought == 100 and many < 2 * one, (one, many)
    with db.connect(autocommit=True) as conn:
        rows = conn.execute("select topic from outbox.claim('w', 10, topics => '{t77,t78}')").fetchall()
    assert {row[0] for row in rows} <= {"t77", "t78"}


def test_many_paused_topics(db):
    """M20: half of the topics are paused, and their messages stand between the others."""
    fill(db, 5000, 20000)
    with db.connect(autocommit=True) as conn:
        conn.execute("select count(outbox.pause('default', 't' || i)) from generate_series(2, 5000, 2) i")
        conn.execute("analyze outbox.pause")
    claimer = Claimer(db)
    reads, brought = claimer.reads(100)
    assert brought == 100 and reads < 5000, reads
    with db.connect(autocommit=True) as conn:
        topics = conn.execute("select distinct m.topic from outbox.queue q join outbox.message m using (id)"
                              " where q.until is not null").fetchall()
        assert all(int(topic[1:]) % 2 for topic, in topics)
        conn.execute("select outbox.resume('default', 't2')")
    seen = set()

    def resumed():
        seen.update(row[0] for row in claimer.conn.execute("select topic from outbox.claim('w', 500)"))
        claimer.conn.commit()
        return "t2" in seen
    wait_for(resumed, 20)


@pytest.mark.parametrize("each", [1, 20])
def test_work_behind_a_paused_topic(db, each):
    """M20 M12: many topics, and one that is paused has more due than a claim steps over. What is behind it comes, though every
    claim finds some other message, or a whole batch of them."""
    with db.connect(autocommit=True) as conn:
        conn.execute("select count(outbox.enqueue('flood', '1')) from generate_series(1, 3000)")
        conn.execute("select count(outbox.enqueue('t' || i, '1')) from generate_series(1, 60) i")
        conn.execute("select outbox.pause('default', 'flood')")
        behind = 0
        for n in range(60):
            conn.execute("select count(outbox.enqueue('t1', '1', key => %s || '/' || i)) from generate_series(1, %s) i", (str(n), each))
            rows = conn.execute("select id, token, key, topic from outbox.claim('w', 10)").fetchall()
            conn.execute("select outbox.ack(%s::uuid[], %s::bigint[])", ([row[0] for row in rows], [row[1] for row in rows]))
            assert all(row[3] != "flood" for row in rows)
            behind += sum(row[2] is None for row in rows)
        assert behind == 60 or each > 10 and behind > 20, behind
        # What is stepped over is found when it may go.
        conn.execute("select outbox.resume('default', 'flood')")
        wait_for(lambda: ("flood",) in conn.execute("select topic from outbox.claim('w', 1000)").fetchall(), 5)


@pytest.mark.parametrize("limit", [1, 3])
def test_work_behind_an_open_settle(db, limit):
    """M20 N5: what waits for messages that somebody is just settling stands in front. It cannot be taken, nor parked; claims
    bring what is behind it."""
    with db.connect(autocommit=True) as conn, db.connect() as slow:
        conn.execute("select count(outbox.enqueue('t', '1', key => 'k' || i % 5)) from generate_series(1, 10) i")
        first = conn.execute("select array_agg(id), array_agg(token) from outbox.claim('w', 5)").fetchone()
        conn.execute("select count(outbox.enqueue('t', '1')) from generate_series(1, 9)")
        assert slow.execute("select count(*) from outbox.ack(%s, %s)", first).fetchone() == (5,)
        left = 9
        while left > 0:
            brought = len(conn.execute("select id from outbox.claim('w', %s)", (limit,)).fetchall())
            assert brought > 0, left
            left -= brought
        slow.commit()
        assert len(conn.execute("select id from outbox.claim('w', 10)").fetchall()) == 5


def test_small_claims_over_dead_entries(db):
    """M20: an old transaction keeps the entries of what was delivered. Small claims, and looks in vain, do not walk over them
    each time; what comes now is found at once, and what was committed late before long."""
    fill(db, 1, 10100)
    with db.connect() as old, db.connect(autocommit=True) as worker, db.connect() as late:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from outbox.queue")
        late.execute("select outbox.enqueue('t1', '\"late\"')")
        left = 10000
        while left > 0:
            left -= worker.execute("with c as materialized (select array_agg(id) as ids, array_agg(token) as tokens"
                                   "  from outbox.claim('w', 1000)) select count(*) from c, outbox.ack(ids, tokens)").fetchone()[0]
        claimer = Claimer(db)
        small, brought = claimer.reads(1)
        assert brought == 1 and small < 1000, small
        while claimer.claim(100)[0]:
            pass
        empty, brought = claimer.reads(1)
        assert brought == 0 and empty < 1000, empty
        worker.execute("select outbox.enqueue('t1', '\"now\"')")
        assert claimer.claim(1)[0] == 1
        late.commit()
        wait_for(lambda: claimer.claim(1)[0] == 1, 20, what="the late one")


@pytest.mark.parametrize("limit", [1, 100])
def test_work_behind_the_expired(db, limit):
    """M9 M12: three hundred that have expired stand in front: the claim buries them and brings what is behind."""
    with db.connect(autocommit=True) as conn:
        conn.execute("select count(outbox.enqueue('t', '1', expires_at => now() + interval '50 ms')) from generate_series(1, 300)")
        conn.execute("select pg_sleep(0.06)")
        conn.execute("select outbox.enqueue('t', '2')")
        for _ in range(100):
            with conn.transaction():
                rows = conn.execute("select payload from outbox.claim('w', %s)", [limit]).fetchall()
                more = conn.execute("select current_setting('outbox.more', true)").fetchone()[0]
            if rows or more != "on":
                break
        assert [row[0] for row in rows] == [2]
        assert conn.execute("select count(*) from outbox.dead_letters").fetchone()[0] == 300
