"""Windows of the log (sql/postgres/007_log.sql), taken and settled step by step as a relay does it."""


def send(conn, topic="t", **more):
    names = "".join(", %s => %%s" % name for name in more)
    return conn.execute("SELECT id FROM outbox.enqueue(%%s, '1'%s)" % names, (topic, *more.values())).fetchone()[0]


class Window:
    """The next window of the log, if there is one."""
    nonces = iter(range(1, 1 << 40))

    def __init__(self, conn, worker="w", limit=100, lease="30 s"):
        self.conn, self.worker, self.nonce = conn, worker, next(self.nonces)
        self.shard, self.id, self.size = conn.execute(
            "SELECT shard, id, size FROM outbox.take(%s, %s, %s, %s, null, null, 100, null, null, null, null, null)",
            (worker, limit, lease, self.nonce)).fetchone()
        rows = conn.execute("SELECT id, tenant_id FROM outbox.window_messages WHERE nonce = %s", (self.nonce,)).fetchall()
        self.ids, self.tenants = [row[0] for row in rows], dict(rows)

    def settle(self, ids, outcome=1):
        bad = self.conn.execute(
            "SELECT * FROM outbox.settle_window(ARRAY[%s], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], '{0}', "
            "array_fill(1, ARRAY[%s]), %s, array_fill(%s::int, ARRAY[%s]), tenants => %s::uuid[])",
            (self.shard, self.id, self.nonce, len(ids), ids, outcome, len(ids), [self.tenants[i] for i in ids])).fetchall()
        assert bad == []
