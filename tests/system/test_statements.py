"""The SQL that the PostgreSQL store sends: every file says what it is, and every statement fits the schema.

Proves: S3 (no SQL outside of these files), M20 (what the list filters by is known to the views).
"""
import glob
import os
import re

import pytest

from support.database import ROOT, create_database, drop_database

FOLDER = os.path.join(ROOT, "sql", "postgres", "stmt")
FILES = sorted(os.path.basename(path) for path in glob.glob(os.path.join(FOLDER, "*.sql")))
# Commands that cannot be prepared, or text that is completed before it is sent.
NOT_PREPARED = re.compile(r"^(begin|commit|rollback|migrate_begin|migrate_table|migrate_print|listen)\.sql$")


def read(name):
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


@pytest.fixture(scope="module")
def one_db(pg_server, pg_template):
    """Nothing is written, so one database will do."""
    db = create_database(pg_server, "statements", pg_template.name)
    yield db
    drop_database(db)


@pytest.mark.parametrize("name", [name for name in FILES if not NOT_PREPARED.match(name)])
def test_prepares(one_db, name):
    """S3: as rendered, against the schema of this version; a parameter without a type would fail here."""
    text = re.sub(r"@(\w+)@", lambda match: '"outbox%s"' % ("" if match[1] == "schema" else "_" + match[1]), read(name))
    if "@channel@" in read(name):
        pytest.skip("completed before it is sent")
    with one_db.connect() as conn:
        conn.execute("prepare s as " + re.sub(r"\A(--.*\n)+", "", text))
        types = conn.execute("select parameter_types::text[] from pg_prepared_statements where name = 's'").fetchone()[0]
    assert len(types) == max([int(number) for number in re.findall(r"\$(\d+)", text)], default=0)


@pytest.mark.parametrize("name", FILES)
def test_head_comment(name):
    """Purpose, parameters and columns stand at the top; every parameter is named there."""
    text = read(name)
    head = re.match(r"\A(--.*\n)+", text)
    assert head, "no head comment"
    if name != "migrate_print.sql":
        assert head[0].startswith("-- %s: " % name[:-4])
