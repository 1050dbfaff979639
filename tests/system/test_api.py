"""The admin API, on both stores: what it answers, and to whom. A real relay is asked over HTTP; its login is no superuser.

The routes come from def/routes.def, so a new one is tried here too: without a token, with a token that is not good, with a role
that is too low, and with a tenant's token for what is another tenant's.

Proves: Y5 S3 S5 N6 V13 T4.
"""
import concurrent.futures
import http.client
import json
import os
import re
import socket
import sqlite3
import time

import pytest

from support.box import STORES, Box
from support.database import ROOT, create_database, drop_database
from support.relay import Relay, wait_for

A, B = "aaaaaaaa-1111-4222-8333-444444444444", "bbbbbbbb-1111-4222-8333-444444444444"
UNKNOWN = "01900000-0000-7000-8000-000000000000"
SECRET = "only-for-b"  # in everything of tenant B
WORDS = {A: "for-a", B: SECRET}
RANKS = {"VIEWER": 1, "OPERATOR": 2, "ADMIN": 3}
with open(os.path.join(ROOT, "def", "routes.def")) as file:
    ROUTES = re.findall(r'^OUTBOX_ENDPOINT\((\w+), "([^"]+)", (\w+), (\w+), (\w+), (\w+), "([^"]*)", "([^"]*)", (\d+)', file.read(), re.M)
names = [route[2] for route in ROUTES]


class Api:
    def __init__(self, box, relay):
        self.box, self.port, self.relay = box, relay.port, relay
        self.tokens = {role: box.cli("token", "create", role, "--role", role).stdout.strip() for role in ("viewer", "operator", "admin")}
        for role in ("viewer", "operator"):
            self.tokens["a-" + role] = box.cli("token", "create", "a-" + role, "--role", role, "--tenant", A).stdout.strip()

    def ask(self, method, path, who=None, body=None, headers=None, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        token = token or (self.tokens[who] if who else None)
        given = {"Authorization": "Bearer " + token} if token else {}
        if body is not None and not isinstance(body, (bytes, str)):
            body, given["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, path, body=body, headers={**given, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer, text
        finally:
            connection.close()

    def json(self, method, path, who, body=None, status=200):
        answer, text = self.ask(method, "/api/v1/" + path, who, body)
        assert answer.status == status, text
        return json.loads(text)

    def problem(self, status, *request, **how):
        answer, text = self.ask(*request, **how)
        assert answer.status == status, (request, text)
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(text)
        assert problem["status"] == status and problem["title"] and problem["code"]
        return problem


def relay_url(box, db):
    """On PostgreSQL, a login that is a member of the roles, and nothing more."""
    if db is None:
        return box.url
    with db.connect(autocommit=True) as conn:
        conn.execute("DO $$ BEGIN CREATE ROLE person_api LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        for role in ("relay", "auditor", "operator", "tenant", "producer"):
            conn.execute("GRANT outbox_%s TO person_api" % role)
    return db.url(user="person_api")


@pytest.fixture(scope="module", params=STORES)
def api(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    db = None
    if request.param == "postgresql":
        db = create_database(request.getfixturevalue("pg_server"), "api", request.getfixturevalue("pg_template").name)
        box = Box(db.url())
    else:
        box = Box("sqlite:%s" % (folder / "outbox.db"))
        box.cli("init")
    relay = Relay(folder, relay_url(box, db), sinks={"out": {"kind": "null"}}, routes=[{"topic": "served", "sink": "out"}], admin=True)
    made = {}
    marks = {tenant: ["--tenant", tenant, "--subject", word, "--header", "word=" + word] for tenant, word in WORDS.items()}
    for tenant, word in WORDS.items():
        made[tenant] = [box.kill("dead." + word, json.dumps({"word": word}), *marks[tenant], error=word, code="code_" + word)]
        box.cli("retry", made[tenant][0], "--reason", word)
        box.settle(3, error=word)
    for tenant, word in WORDS.items():
        made[tenant] += [box.send("kept", json.dumps({"word": word, "n": n}), *marks[tenant], "--key", "k-" + word) for n in range(3)]
    with relay.running():
        wait_for(relay.started)
        api = Api(box, relay)
        api.made, api.kind = made, request.param
        yield api
    if db:
        drop_database(db)


def path_of(route, id_):
    return route[1].replace("{id}", id_).replace("{name}", "admin")


def test_me(api):
    """Y5: a token says whose it is."""
    assert api.json("GET", "me", "viewer") == {"name": "viewer", "role": "viewer", "tenant": None, "version": api.json("GET", "me", "viewer")["version"],
                                              "store": {"name": "default", "kind": api.kind}, "stores": ["default"], "dev": False}
    assert api.json("GET", "me", "a-operator")["tenant"] == A


def test_the_documents_are_those_of_the_command_line(api):
    """N6 V13: one function says it, whoever asks."""
    id_ = api.made[A][1]
    shown = api.json("GET", "messages/" + id_, "viewer")
    assert shown == api.box.show(id_)
    assert api.json("GET", "messages/%s/explain" % id_, "viewer")["answers"][0]["state"] == api.box.json("explain", id_)["answers"][0]["state"]
    assert set(api.json("GET", "status", "viewer")) == set(api.box.json("status"))
    page = api.json("GET", "messages?filter=topic:kept&limit=4", "viewer")
    assert [row["id"] for row in page["messages"]] == [row["id"] for row in api.box.list("--topic", "kept", "--limit", "4")]
    rest = api.json("GET", "messages?filter=topic:kept&limit=4&after=" + page["next"], "viewer")
    assert len(rest["messages"]) == 2 and rest["next"] is None
    assert api.json("GET", "count?filter=topic:kept", "viewer") == {"count": 6, "exact": True}
    around = api.json("GET", "messages/%s/neighbours" % api.made[A][2], "viewer")["messages"]
    assert [row["id"] for row in around] == api.made[A][1:4]
    assert api.json("GET", "acts", "viewer")["acts"][0]["action"] in ("create_token", "retry", "pause", "resume", "tune", "configure")
    assert isinstance(api.json("GET", "groups", "viewer")["groups"], list)


@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_no_token_no_answer(api, route):
    """S3: 401 without a token, with a foreign, a revoked and an expired one; and it says how to get one."""
    body = {} if route[7] else None
    for token in (None, "obx_" + "A" * 43, "junk", api.tokens["viewer"][:-1] + "!"):
        problem = api.problem(401, route[0], path_of(route, UNKNOWN), body=body, token=token)
        assert "outbox token create" in problem["next"]
    assert api.ask(route[0], path_of(route, UNKNOWN), body=body, headers={"Authorization": "Basic YTpi"})[0].status == 401


def test_revoked_and_expired(api):
    """S3: a revoked token and an expired one are nobody's, at once."""
    token = api.box.cli("token", "create", "short", "--role", "admin").stdout.strip()
    assert api.ask("GET", "/api/v1/me", token=token)[0].status == 200
    api.box.cli("token", "revoke", "short")
    assert api.ask("GET", "/api/v1/me", token=token)[0].status == 401
    token = api.box.cli("token", "create", "brief", "--role", "admin", "--expires", "2s").stdout.strip()
    wait_for(lambda: api.ask("GET", "/api/v1/me", token=token)[0].status == 401)


@pytest.mark.parametrize("route", [route for route in ROUTES if route[3] != "VIEWER"], ids=[route[2] for route in ROUTES if route[3] != "VIEWER"])
def test_a_role_that_is_too_low(api, route):
    """S5: a viewer acts on nothing, and an operator is no admin."""
    for who in [who for who in ("viewer", "operator") if RANKS[who.upper()] < RANKS[route[3]]]:
        problem = api.problem(403, route[0], path_of(route, api.made[A][1]), who=who, body={} if route[7] else None)
        assert problem["code"] == "FORBIDDEN" and who in problem["detail"]


@pytest.mark.parametrize("route", ROUTES, ids=names)
def test_a_tenants_token_for_what_is_anothers(api, route):
    """Y5 S5: nothing of another tenant is seen or changed, on any route."""
    before = api.box.list("tenant:" + B)
    for id_ in api.made[B]:
        for query in ("", "?filter=tenant:" + B, "?filter=subject:" + SECRET) if "filter" in route[6] else ("",):
            body = {"ids": [id_], "filter": "tenant:" + B, "act": "discard", "topic": "t", "tenant_id": B, "payload": 1, "tenant": B} if route[7] else None
            answer, text = api.ask(route[0], path_of(route, id_) + query, "a-operator", body)
            assert answer.status in (200, 202, 400, 403, 404, 405), text
            assert SECRET not in text and (route[7] or B not in text.replace("tenant:" + B, "")), text
            if route[4] == "ALL":
                assert answer.status == 403
    if route[2] in ("message", "neighbours"):
        api.problem(404, route[0], path_of(route, api.made[B][1]), who="a-viewer")
    wait_for(lambda: all(job["state"] != "running" for job in api.json("GET", "jobs", "operator")["jobs"]))
    assert api.box.list("tenant:" + B) == before


def test_a_tenant_reaches_its_own(api):
    """Y5: and its own it sees, with the same routes."""
    assert api.json("GET", "count?filter=topic:kept", "a-viewer") == {"count": 3, "exact": True}
    assert api.json("GET", "messages/" + api.made[A][1], "a-viewer")["message"]["tenant_id"] == A
    assert {row["message_id"] for row in api.json("GET", "acts", "a-viewer")["acts"]} == {api.made[A][0]}
    for text in ("status:dead", "status:pending", "status:processing", "status:discarded", "status:delivered", "topic:dead.*", "subject:for-a", "key:k-for-a",
                 "error:~for", "code:code_*", "attempts:>0", "age:>0s", "id:" + api.made[A][0][:8], "group:0000000000000000", ""):
        seen = api.json("GET", "messages?filter=" + text.replace(">", "%3E"), "a-viewer")["messages"]
        assert {row["tenant_id"] for row in seen} <= {A}
    assert [row["id"] for row in api.json("GET", "messages?filter=subject:for-a%20topic:dead.*", "a-viewer")["messages"]] == [api.made[A][0]]
    sent = api.json("POST", "messages", "a-operator", {"topic": "sent", "payload": {"x": 1.5}}, 201)
    assert api.box.show(sent["id"])["message"]["tenant_id"] == A
    assert api.problem(400, "POST", "/api/v1/messages", who="a-operator", body={"topic": "sent", "payload": 1, "tenant_id": B})


# ---- acts -------------------------------------------------------------------------------------------------------------


def test_acts_are_on_record_by_the_tokens_name(api):
    """T4: who, what and why."""
    for path, body in (("pauses", {"topic": "later", "reason": "moving"}), ("resume", {"topic": "later", "reason": "moved"}),
                       ("tune", {"name": "batch", "value": "7", "reason": "slow"}), ("tune", {"name": "batch", "value": None})):
        api.json("POST", path, "operator", body)
    api.json("POST", "settings", "admin", {"namespace": "n", "name": "max_attempts", "value": "3", "reason": "few"})
    rows = api.json("GET", "acts", "viewer")["acts"]
    assert [(row["actor"], row["action"], row["reason"]) for row in rows[:5]] == [
        ("admin", "configure", "few"), ("operator", "tune", None), ("operator", "tune", "slow"), ("operator", "resume", "moved"), ("operator", "pause", "moving")]
    assert {"namespace": "n", "name": "max_attempts", "value": "3"} in api.json("GET", "settings", "viewer")["settings"]
    api.problem(404, "POST", "/api/v1/resume", who="operator", body={"topic": "later"})


def finished(api, id_, who="operator"):
    def ended():
        job = api.json("GET", "jobs/" + id_, who)
        return job if job["state"] != "running" else None
    return wait_for(ended)


def test_acts_on_messages_are_jobs(api):
    """T4 N10: counted first, then done by a job, on record; a tenant's job reaches its own messages only."""
    found = api.json("POST", "acts", "operator", {"act": "retry", "filter": "status:dead", "dry_run": True})
    assert found["count"] == 2 and found["exact"] and {row["id"] for row in found["sample"]} == {api.made[A][0], api.made[B][0]}
    job = api.json("POST", "acts", "a-operator", {"act": "discard", "filter": "status:dead", "reason": "mine"}, 202)["job"]
    ended = finished(api, job, "a-viewer")
    assert (ended["state"], ended["done"], ended["actor"], ended["error"]) == ("done", 1, "a-operator", None)
    assert [api.box.show(api.made[tenant][0])["message"]["status"] for tenant in (A, B)] == ["discarded", "dead"]
    assert api.box.show(api.made[A][0])["acts"][-1]["actor"] == "a-operator"
    job = api.json("POST", "acts", "a-operator", {"act": "discard", "ids": [api.made[B][0]]}, 202)["job"]
    assert finished(api, job)["done"] == 0
    assert api.box.show(api.made[B][0])["message"]["status"] == "dead"
    other = api.json("POST", "acts", "operator", {"act": "retry", "ids": [api.made[B][0]], "rate": 10}, 202)["job"]
    assert finished(api, other)["done"] == 1
    api.problem(404, "GET", "/api/v1/jobs/" + other, who="a-viewer")
    assert other not in [row["id"] for row in api.json("GET", "jobs", "a-viewer")["jobs"]]
    assert api.json("DELETE", "jobs/" + other, "operator")["state"] == "done"
    for bad in ({}, {"act": "retry"}, {"act": "retry", "filter": ""}, {"act": "burn", "ids": [UNKNOWN]}, {"act": "retry", "ids": []}, {"act": "retry", "ids": ["x"]},
                {"act": "retry", "ids": [UNKNOWN], "rate": -1}, {"act": "move", "ids": [UNKNOWN]}, {"act": "retry", "filter": "status:delivered"}, {"act": "retry", "ids": 5}):
        api.problem(400, "POST", "/api/v1/acts", who="operator", body=bad)
        if bad:
            api.problem(400, "POST", "/api/v1/acts", who="a-operator", body=bad)


def test_tokens_over_the_api(api):
    """Y5 S3: an admin makes and ends tokens; the list has no secret."""
    made = api.json("POST", "tokens", "admin", {"name": "made", "role": "viewer", "expires": "1h"}, 201)
    assert api.ask("GET", "/api/v1/me", token=made["token"])[0].status == 200
    rows = api.ask("GET", "/api/v1/tokens", "admin")[1]
    assert made["token"] not in rows and "hash" not in rows
    assert [(row["role"], row["created_by"]) for row in json.loads(rows)["tokens"] if row["name"] == "made"] == [("viewer", "admin")]
    api.json("DELETE", "tokens/made", "admin")
    assert api.ask("GET", "/api/v1/me", token=made["token"])[0].status == 401
    api.problem(404, "DELETE", "/api/v1/tokens/made", who="admin")
    for bad in ({"name": "made", "role": "viewer"}, {"name": "x y", "role": "viewer"}, {"name": "x", "role": "king"}, {"name": "x"},
                {"name": "x", "role": "admin", "tenant": A}, {"name": "x", "role": "viewer", "tenant": "x"}, {"name": "x", "role": "viewer", "expires": "soon"}):
        api.problem(400, "POST", "/api/v1/tokens", who="admin", body=bad)


# ---- what is wrong with a request ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/api/v1/messages?filter=nosuch:1", 400), ("GET", "/api/v1/messages?limit=0", 400), ("GET", "/api/v1/messages?limit=1e9", 400),
    ("GET", "/api/v1/messages?after=x", 400), ("GET", "/api/v1/messages?more=1", 400), ("GET", "/api/v1/messages?filter=%ff", 400),
    ("GET", "/api/v1/messages?filter=a%00b", 400), ("GET", "/api/v1/messages?limit=1&limit=2", 400), ("GET", "/api/v1/me?store=other", 404),
    ("GET", "/api/v1/messages/nonsense", 400), ("GET", "/api/v1/messages/" + UNKNOWN, 404), ("GET", "/api/v1/messages/%2e%2e%2fstatus", 404),
    ("GET", "/api/v1/../../etc/passwd", 404), ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404), ("GET", "/api/v1/", 404), ("GET", "/api", 404),
    ("PUT", "/api/v1/me", 405), ("PATCH", "/api/v1/messages", 405), ("OPTIONS", "/api/v1/status", 405), ("BREW", "/api/v1/me", 405),
    ("POST", "/", 405), ("DELETE", "/app.js", 405)])
def test_bad_requests(api, method, path, status):
    """S3: told what is wrong, as a problem; never a 500."""
    api.problem(status, method, path, who="admin")


@pytest.mark.parametrize("body, headers, status", [
    ("{", {"Content-Type": "application/json"}, 400), ("[]", {"Content-Type": "application/json"}, 400), ("", {"Content-Type": "application/json"}, 400),
    ('{"a": 1, "a": 2}', {"Content-Type": "application/json"}, 400), ('{"topic": 5}', {"Content-Type": "application/json"}, 400),
    ('{"topic": "t", "topic\\u0000": 1}', {"Content-Type": "application/json"}, 400), (b'{"topic": "\xff"}', {"Content-Type": "application/json"}, 400),
    ("[" * 60000, {"Content-Type": "application/json"}, 400), ("{}", {"Content-Type": "text/plain"}, 415), ("{}", {}, 415),
    ("{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415), ('{"topic": "t", "payload": 1, "priority": 10}', {"Content-Type": "application/json"}, 400),
    ('{"topic": "t", "payload": 1, "headers": 5}', {"Content-Type": "application/json"}, 400), ("x" * 70000, {"Content-Type": "application/json"}, 413)])
def test_bad_bodies(api, body, headers, status):
    """S3: JSON, an object, of limited size, said to be JSON."""
    api.problem(status, "POST", "/api/v1/messages", who="operator", body=body, headers=headers)


def test_other_origins(api):
    """S3: a page of another origin is refused, even with a token; ours is not."""
    ours = {"Origin": "http://127.0.0.1:%d" % api.port}
    assert api.ask("GET", "/api/v1/me", "viewer", headers=ours)[0].status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1:%d.evil.example" % api.port):
        answer, _ = api.ask("GET", "/api/v1/me", "viewer", headers={"Origin": origin})
        assert answer.status == 403 and "Access-Control-Allow-Origin" not in answer.headers


def test_the_page(api):
    """S3: static, needs no token, holds no data; nothing else may be loaded, and nobody may frame it."""
    answer, text = api.ask("GET", "/")
    assert answer.status == 200 and text.lower().startswith("<!doctype html>")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"] and "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and "Set-Cookie" not in answer.headers
    assert api.ask("GET", "/", headers={"If-None-Match": answer.headers["ETag"]})[0].status == 304


def raw(port, data, timeout=30):
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while chunk := client.recv(65536):
                answer += chunk
        except OSError:
            pass
        return answer


def test_floods(api):
    """S3: headers without end, bodies without end, lies about lengths, many at once: the relay lives, answers others, and does not grow."""
    before = api.relay.rss_kib()
    head = b"POST /api/v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n" % api.tokens["operator"].encode()
    for data in (b"GET /api/v1/me HTTP/1.1\r\n" + b"X-A: b\r\n" * 20000 + b"\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"4000\r\n" + b" " * 0x4000 + b"\r\n") * 40 + b"0\r\n\r\n",
                 head + b"Content-Length: 99999999999999999999\r\n\r\n{}", head + b"Content-Length: -1\r\n\r\n{}", head + b"Content-Length: 500\r\n\r\n{",
                 b"GET /api/v1/messages?" + b"&".join(b"p%d=1" % n for n in range(200)) + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" * 50):
        answer = raw(api.port, data)
        assert not answer.startswith(b"HTTP/1.1 5"), answer[:200]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda n: api_or_closed(api, n), range(200)))
    assert set(answers) <= {200, 503, None} and answers.count(200) >= 5
    assert api.json("GET", "me", "viewer")["name"] == "viewer"
    assert api.relay.rss_kib() < before + 60000


def api_or_closed(api, _):
    try:
        return api.ask("GET", "/api/v1/messages?limit=500", "viewer")[0].status
    except (ConnectionError, http.client.HTTPException):
        return None  # too many connections of one address: the oldest goes


def test_slow_clients(api):
    """S3: who sends a byte now and then keeps nobody else out."""
    slow = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(20)]
    for client in slow:
        client.sendall(b"POST /api/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{")
    assert api.json("GET", "me", "viewer")["name"] == "viewer"
    for client in slow:
        client.close()


def test_a_relay_that_stops_answers_first(api, tmp_path):
    """S15: requests that wait when the relay stops are answered or closed, and it ends well."""
    relay = Relay(tmp_path, api.box.url, sinks={"out": {"kind": "null"}}, routes=[{"topic": "served", "sink": "out"}], admin=True, name="second")
    with relay.running():
        wait_for(relay.started)
        other = Api.__new__(Api)
        other.port, other.tokens = relay.port, api.tokens
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(api_or_closed, other, n) for n in range(8)]
            relay.process.terminate()
            assert {future.result() for future in waiting} <= {200, 503, None}
        assert relay.wait() == 0
        relay.start()
        wait_for(relay.started)


@pytest.mark.skipif("postgresql" not in STORES, reason="needs PostgreSQL")
def test_a_login_without_the_roles_is_told(pg_server, pg_template, tmp_path):
    """S5: the database enforces the roles; a relay whose login is not in them says which command adds it."""
    db = create_database(pg_server, "apilogin", pg_template.name)
    with db.connect(autocommit=True) as conn:
        conn.execute("DO $$ BEGIN CREATE ROLE person_bare LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
        conn.execute("GRANT outbox_relay TO person_bare")
    box = Box(db.url())
    relay = Relay(tmp_path, db.url(user="person_bare"), sinks={"out": {"kind": "null"}}, routes=[{"sink": "out"}], admin=True)
    try:
        with relay.running():
            wait_for(relay.started)
            api = Api(box, relay)
            problem = api.problem(403, "GET", "/api/v1/status", who="viewer")
            assert "outbox_auditor" in problem["detail"] and "GRANT outbox_auditor TO person_bare" in problem["detail"]
    finally:
        drop_database(db)


@pytest.mark.parametrize("api", ["sqlite"], indirect=True)
def test_a_tenant_cannot_read_past_the_views(api):
    """S5: on SQLite the store itself refuses, whatever a handler asks for: no table is open by default. On PostgreSQL row security
    does: test_tenants.py."""
    with sqlite3.connect(api.box.url.removeprefix("sqlite:")) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name LIKE 'outbox%'")}
    with open(os.path.join(ROOT, "sql", "sqlite", "stmt", "tenant_views.sql")) as file:
        hidden = set(re.findall(r"CREATE TEMP VIEW (\w+)", file.read()))
    with open(os.path.join(ROOT, "src", "store", "sqlite", "rights.c")) as file:
        shared = set(re.findall(r'"(outbox_\w+)"', re.search(r"open_tables\[\] = \{(.*?)\}", file.read(), re.S).group(1)))
    assert hidden <= tables and shared <= tables and not hidden & shared
    assert "outbox_token" not in shared and "outbox_message" in hidden
