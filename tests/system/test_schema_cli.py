"""JSON Schema on the command line: at enqueue, and without a store.

Proves: S12 (a payload that does not fit its schema is never sent; path and rule are named).
"""
import json
import subprocess
import time

import pytest

from support.database import CLI, run_cli

SCHEMA = """{
  "type": "object",
  "required": ["amount"],
  "properties": {
    "amount": {"type": "number", "exclusiveMinimum": 0},
    "currency": {"pattern": "^[A-Z]{3}$"}
  }
}
"""


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "order.schema.json"
    path.write_text(SCHEMA)
    return str(path)


@pytest.fixture
def store(tmp_path):
    url = "sqlite:%s" % (tmp_path / "box.db")
    run_cli("init", url)
    return url


def test_send_refuses_what_does_not_fit(schema, store):
    bad = run_cli("send", "orders", '{"amount": 0}', "--store", store, "--json-schema", schema, check=False)
    assert bad.returncode == 2
    assert "does not fit %s: /amount: must be > 0 (exclusiveMinimum)" % schema in bad.stderr
    assert run_cli("list", "--json", "--store", store).stdout == ""
    run_cli("send", "orders", '{"amount": 1}', "--store", store, "--json-schema", schema)
    assert len(run_cli("list", "--json", "--store", store).stdout.splitlines()) == 1


def test_send_refuses_what_is_no_json(schema, store):
    bad = run_cli("send", "orders", "hello", "--content-type", "text/plain", "--store", store, "--json-schema", schema,
                  check=False)
    assert bad.returncode == 2
    assert "payload: 1:1: not a JSON value" in bad.stderr


def test_validate_names_path_and_rule(schema, tmp_path):
    payload = tmp_path / "payload.json"
    payload.write_text('{"amount": 5, "currency": "euro"}')
    done = run_cli("validate", "--json", "--json-schema", schema, "@%s" % payload, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "ok": False, "errors": 1, "warnings": 0, "file": str(schema), "problems": [
            {"level": "error", "path": "/currency", "rule": "/properties/currency/pattern",
             "text": "/currency: must match ^[A-Z]{3}$ (pattern)"}]}
    assert done.stderr == ""
    payload.write_text('{"amount": 5, "currency": "EUR"}')
    done = run_cli("validate", "--json", "--json-schema", schema, "@%s" % payload)
    assert json.loads(done.stdout) == {"ok": True, "errors": 0, "warnings": 0, "file": str(schema), "problems": []}


def test_validate_without_a_payload_checks_the_schema(schema, tmp_path):
    assert run_cli("validate", "--json-schema", schema).stderr == "%s: valid\n" % schema
    wrong = tmp_path / "wrong.json"
    wrong.write_text(SCHEMA.replace('"exclusiveMinimum": 0', '"exclusiveMinimum": "0"'))
    done = run_cli("validate", "--json-schema", str(wrong), check=False)
    assert done.returncode == 78  # and not 2, which says that a payload does not fit
    for command in (["validate", "{}"], ["send", "orders", "{}", "--store", "sqlite:%s" % (tmp_path / "none.db")]):
        again = run_cli(*command, "--json-schema", str(wrong), check=False)
        assert (again.returncode, again.stderr) == (78, done.stderr)
    assert "%s:5:54: /properties/amount/exclusiveMinimum: must be a number, not a string" % wrong in done.stderr


def test_the_relay_never_sends_what_does_not_fit(schema, store, tmp_path):
    """S12: dead at once, after one attempt, with path and rule; its neighbour is delivered."""
    config = tmp_path / "outbox.yaml"
    config.write_text("store: %s\nsinks: {out: {kind: file, path: %s}}\n"
                      "routes: [{topic: orders, sink: out, schema: order.schema.json}]\n" % (store, tmp_path / "sent"))
    for amount in (0, 7):
        run_cli("send", "orders", '{"amount": %d}' % amount, "--store", store)
    relay = subprocess.Popen([CLI, "run", "--config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            rows = [json.loads(line) for line in run_cli("list", "--json", "--store", store).stdout.splitlines()]
            if not {row["status"] for row in rows} & {"pending", "processing"}:
                break
            time.sleep(0.05)
    finally:
        relay.terminate()
        log = relay.communicate(timeout=30)[1]
    assert sorted(row["status"] for row in rows) == ["dead", "delivered"], log
    dead = next(row for row in rows if row["status"] == "dead")
    assert (dead["last_code"], dead["attempts"]) == ("schema", 1)
    assert dead["last_error"] == ("/amount: must be > 0 (exclusiveMinimum) "
                                  "[order.schema.json#/properties/amount/exclusiveMinimum]")
    sent = (tmp_path / "sent").read_text()
    assert '"amount": 7' in sent and '"amount": 0' not in sent


def test_what_does_not_fit_is_no_sign_of_life(schema, store, tmp_path):
    """N5 S12: between messages that do not fit, a sink that is down opens its breaker all the same, and the rest of
    the messages keep their attempts."""
    config = tmp_path / "outbox.yaml"
    config.write_text("store: %s\nsinks: {out: {kind: stub, script: retry!, concurrency: 1, batch: 1,"
                      " breaker: {failures: 3, base: 60s, cap: 60s}, retry: {base: 1h, cap: 1h}}}\n"
                      "routes: [{topic: orders, sink: out, schema: order.schema.json}]\n" % store)
    for n in range(24):
        run_cli("send", "orders", '{"amount": %d}' % (n % 2), "--store", store)
    relay = subprocess.Popen([CLI, "run", "--config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def tried():
        rows = [json.loads(line) for line in run_cli("list", "--json", "--store", store).stdout.splitlines()]
        return [row["last_code"] for row in rows].count("stub_retry")
    try:
        deadline = time.monotonic() + 30
        while tried() < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        relay.terminate()
        log = relay.communicate(timeout=30)[1].decode()
    assert "breaker=open" in log, log
    assert tried() == 3, log
