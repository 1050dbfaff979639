"""The past that no test can wait for: partitions of long ago, and messages moved into them with all that is theirs."""
import uuid

# Every column that holds a message's id.
IDS = [("message", "id"), ("message_kept", "id"), ("queue", "id"), ("attempt", "message_id"),
       ("attempt_kept", "message_id"),
       ("archived", "id"), ("dead", "id"), ("dedupe", "id"), ("act", "message_id")]


def make_period(conn, days_ago, days=1):
    """Partitions that begin so many whole days ago."""
    conn.execute("SET ROLE outbox_owner")
    conn.execute("SELECT outbox.make_period(date_trunc('day', now() - %(ago)s * interval '1 day', 'UTC'), "
                 "date_trunc('day', now() - (%(ago)s - %(days)s) * interval '1 day', 'UTC'))",
                 {"ago": days_ago, "days": days})
    conn.execute("RESET ROLE")
    return conn.execute("SELECT suffix FROM outbox.period ORDER BY start LIMIT 1").fetchone()[0]


def aged_id(conn, message, days):
    """The id that the message would have, had it come at noon of so many days ago."""
    head = conn.execute("SELECT outbox.uuid_at(date_trunc('day', now() - %s * interval '1 day', 'UTC') + interval '12 "
                        "h')",
                        (days,)).fetchone()[0]
    return uuid.UUID(head.hex[:12] + message.hex[12:])


def age(conn, message, days, settled_days=None):
    """Moves a message, and its attempts, so many days back. settled_days: its attempts only so many. The guards of the
    record are off for this session only, which takes a superuser. Returns its new id."""
    new = aged_id(conn, message, days)
    conn.execute("SET session_replication_role = replica")
    for table, column in IDS:
        conn.execute("UPDATE outbox.%s SET %s = %%s WHERE %s = %%s" % (table, column, column), (new, message))
    for table in ("message", "message_kept", "dead", "archived"):
        conn.execute("UPDATE outbox.%s SET created_at = created_at - %%s * interval '1 day' WHERE id = %%s" % table,
                     (days, new))
    for table in ("attempt", "attempt_kept"):
        conn.execute("UPDATE outbox.%s SET claimed_at = claimed_at - %%s * interval '1 day', completed_at = "
                     "completed_at - %%s * interval '1 day' WHERE message_id = %%s" % table,
                     (settled_days if settled_days is not None else days,) * 2 + (new,))
    conn.execute("RESET session_replication_role")
    return new


def purge(conn, most=50):
    """Calls purge until there is no more to do; what it said."""
    steps = []
    for _ in range(most):
        step = conn.execute("SELECT action, detail, removed, more FROM outbox.purge()").fetchone()
        steps.append(step[:3])
        if not step[3]:
            return steps
    raise AssertionError("purge finds no end: %r" % steps[-3:])
