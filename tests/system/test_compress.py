"""Large payloads are stored compressed: by the command line and the library as zstd, by PostgreSQL itself for producers in
SQL. Nobody behind the relay can tell.

Proves: Y7 (compression of large payloads).
"""
import base64
import json
import subprocess

import pytest

from support.database import run_cli
from support.relay import Relay
from support.shop import PgShop

LARGE = {"lines": [{"n": n, "name": "line %d" % (n * 2654435761 % 4294967296)} for n in range(3000)]}


def length(shop):
    return "octet_length(body)" if isinstance(shop, PgShop) else "length(body)"


def send(shop, tmp_path, payload, *args):
    path = tmp_path / "payload"
    path.write_text(payload)
    return json.loads(shop.cli("send", "orders", "@%s" % path, "--json", *args).stdout)["id"]


def stored(shop, id_):
    return tuple(shop.sql("select encoding, %s from %s where id = '%s'" % (length(shop), shop.messages, id_))[0])


def test_the_version_tells_of_it():
    """Y7: whether a build compresses can be asked."""
    assert json.loads(run_cli("version", "--json").stdout)["compression"] == ["zstd"]


def test_send_and_show(shop, tmp_path):
    """Y7: stored in less than half, shown as it was; --compress-over says from where on, -1 that it never is."""
    text = json.dumps(LARGE)
    large = send(shop, tmp_path, text)
    encoding, size = stored(shop, large)
    assert encoding == "zstd" and size < len(text) / 2
    shown = shop.cli("show", large, "--json").stdout
    assert json.loads(shown)["message"]["payload"] == LARGE
    assert "line 0" in shop.cli("show", large).stdout
    assert "line 0" in shop.cli("list", "--payload").stdout
    assert stored(shop, send(shop, tmp_path, text, "--compress-over", "-1"))[0] is None
    small = json.dumps({"text": "again " * 100})
    assert stored(shop, send(shop, tmp_path, small))[0] is None
    assert stored(shop, send(shop, tmp_path, small, "--compress-over", "100"))[0] == "zstd"
    refused = shop.cli("send", "orders", "1", "--compress-over", "0", check=False)
    assert refused.returncode == 2 and "--compress-over" in refused.stderr


def frame(payload):
    return subprocess.run(["zstd", "-q", "-c", "--no-check", "--stream-size=%d" % len(payload)], input=payload,
                          stdout=subprocess.PIPE, check=True).stdout


def insert(shop, data):
    if isinstance(shop, PgShop):
        return str(shop.sql("select id from outbox.enqueue_bytes('orders', '\\x%s', null, encoding => 'zstd')"
                            % data.hex())[0][0])
    shop.sql("insert into outbox (topic, payload, encoding) values ('orders', x'%s', 'zstd')" % data.hex())
    return shop.sql("select id from outbox_message order by n desc limit 1")[0][0]


def test_relay_delivers_plain_and_buries_damaged(shop, tmp_path):
    """Y7: a sink gets the payload as it was, whoever compressed it; a frame that cannot be read is dead at once, with a
    code and a text, and the others go on."""
    text = json.dumps(LARGE)
    sent = send(shop, tmp_path, text)
    data = frame(text.encode())
    damaged = insert(shop, data[:-9])
    good = insert(shop, data)
    out = tmp_path / "out"
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "file", "path": str(out)}}, [{"sink": "out"}])
    relay.until_empty()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["id"]: line["payload"] for line in lines} == {sent: LARGE, good: LARGE}
    message = json.loads(shop.cli("show", damaged, "--json").stdout)["message"]
    assert (message["status"], message["last_code"], message["attempts"]) == ("dead", "encoding", 1)
    assert message["payload"] is None and "zstd" in message["payload_fault"] and "zstd" in message["last_error"]
    assert "not a complete zstd frame" in shop.cli("show", damaged).stdout


@pytest.mark.parametrize("format_", ["json", "cloudevent", "payload"])
def test_nothing_is_forged_inside_a_frame(shop, tmp_path, format_):
    """Y7, M19: a frame without a content type holds JSON and nothing else. What would close the envelope and write id,
    source and tenant anew is never handed over: the message is dead, with a code of its own, and is shown as bytes."""
    forged = insert(shop, frame(b'{}},"id":"forged","tenant":"forged","source":"forged","x":{"y":1'))
    lines = insert(shop, frame(b'{}\n{"id":"forged"}'))
    good = insert(shop, frame(b'{"text":\n"good"}'))
    out = tmp_path / "out"
    Relay(tmp_path, shop.url, {"out": {"kind": "file", "path": str(out), "format": format_}}, [{"sink": "out"}]).until_empty()
    assert "forged" not in out.read_text()
    line, = [json.loads(line) for line in out.read_text().splitlines()]
    assert format_ == "payload" or line["id"] == good
    for id_ in (forged, lines):
        message = json.loads(shop.cli("show", id_, "--json").stdout)["message"]
        assert (message["id"], message["status"], message["last_code"]) == (id_, "dead", "not_json")
        assert message["payload"] is None and b"forged" in base64.b64decode(message["payload_base64"])
        assert "content type" in shop.cli("show", id_).stdout
    rows = [json.loads(line) for line in shop.cli("list", "--payload", "--json").stdout.splitlines()]
    assert {row["id"] for row in rows} >= {forged, lines}


def test_lz4(db):
    """Y7: where the server has lz4, the large columns use it, in the partitions of today and of tomorrow, too."""
    try:
        db.sql("create temp table has_lz4 (t text compression lz4)")
    except Exception:
        pytest.skip("this server was built without lz4")
    db.sql("select outbox.configure('*', 'partition_width', '1 hour')")
    db.sql("select outbox.purge()")
    rows = db.sql("""select c.relname, a.attname, a.attcompression::text from pg_class c
                       join pg_attribute a on a.attrelid = c.oid
                      where c.relnamespace = 'outbox'::regnamespace and c.relkind in ('r', 'p')
                        and (c.relname like 'message%' or c.relname = 'dead')
                        and a.attname in ('headers', 'payload', 'body')""")
    assert {row[0] for row in rows} > {"message", "message_default", "message_kept", "dead"}
    assert [row for row in rows if row[2] != "l"] == []
    db.sql("select outbox.enqueue('orders', to_jsonb(repeat('what compresses well ', 5000)))")
    assert db.sql("select pg_column_compression(payload) from outbox.message")[0][0] == "lz4"
