"""Settings of a session, its role or its database change nothing in what the outbox does.

Proves: V8 M8 (claims go on whatever the database's defaults are).
"""
import pytest

HOSTILE = {
    "datestyle": "SQL, DMY",
    "timezone": "Asia/Jakarta",
    "intervalstyle": "sql_standard",
}


def hostile(db, **more):
    """A connection whose settings are anything but ours."""
    conn = db.connect(autocommit=True)
    for name, value in {**HOSTILE, **more}.items():
        conn.execute("SELECT set_config(%s, %s, false)", (name, value))
    return conn


@pytest.mark.parametrize("style", ["SQL, DMY", "SQL, MDY", "Postgres, DMY", "German"])
def test_claims_go_on(db, style):
    """V8: what a session remembers of its last claim is read as it was written, whatever its DateStyle and zone."""
    db.sql("SELECT outbox.enqueue('t', '1', tenant_id => gen_random_uuid()) FROM generate_series(1, 200)")
    with hostile(db, datestyle=style) as conn:
        taken = [conn.execute("SELECT count(*) FROM outbox.claim('w', 100)").fetchone()[0] for _ in range(3)]
    assert taken == [100, 100, 0]
