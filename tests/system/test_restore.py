"""Dumps: a whole one is restored and works; data alone is refused by a database that is migrated already.

Proves: N7 (nothing is lost), S5 (rights come back).
"""
import os
import subprocess

from support import database


def tool(db, name, *args, check=True):
    done = subprocess.run([os.path.join(db.server.bindir, name), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert not check or done.returncode == 0, done.stdout
    return done


def test_a_dump_is_restored_as_a_whole(db, pg_server, tmp_path):
    """N7 S5: what was pending is delivered from the restored database, and every right is as it should be. Data alone does not
    go into a migrated database: nothing of it stays."""
    db.sql("SELECT count(outbox.enqueue('t', to_jsonb(n), key => 'k', dedupe_key => 'd' || n)) FROM generate_series(1, 5) n")
    db.sql("SELECT outbox.ack(ARRAY[id], ARRAY[token]) FROM outbox.claim('w', 1)")
    dump = str(tmp_path / "dump")
    tool(db, "pg_dump", "-Fc", "-f", dump, db.url())
    other = database.create_database(pg_server, "restored")
    try:
        tool(db, "pg_restore", "-d", other.url(), dump)
        assert other.sql("SELECT * FROM outbox.wrong_rights()") == []
        assert other.sql("SELECT count(*) FROM outbox.claim('w', 10, run => 10)") == [(4,)]
        assert other.cli("migrate").returncode == 0
        assert other.sql("SELECT created FROM outbox.enqueue('t', '1', dedupe_key => 'd1')") == [(False,)]
        database.drop_database(other)
        database.create_database(pg_server, "restored")
        other.cli("migrate")
        refused = tool(db, "pg_restore", "-a", "--single-transaction", "-d", other.url(), dump, check=False)
        assert refused.returncode != 0 and "already exists" in refused.stdout
        assert other.sql("SELECT (SELECT count(*) FROM outbox.queue), (SELECT count(*) FROM outbox.message)") == [(0, 0)]
    finally:
        database.drop_database(other)
