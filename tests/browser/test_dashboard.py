"""The dashboard in a real browser, served by a real relay, on both stores: every screen and every act of it. What an act did is
read back with the command line. tests/support/browser.py fails a test whose page had a script error, broke its content policy or
asked anybody but the relay.

Proves: V13 Y5 Y7 T4 T5 N6 N10, and that nothing of a message becomes markup.
"""
import json
import os
import types

import pytest

from support import database
from support.box import STORES, Box
from support.browser import DARK, DESKTOP, PHONE, Browser, Unreachable
from support.relay import Relay, wait_for

EVIL = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>"
SHOTS = os.path.join(database.ROOT, "build", "screenshots")
SCREENS = ["overview", "messages", "failures", "keys", "sinks", "jobs", "tokens"]


@pytest.fixture(scope="module")
def browser():
    try:
        browser = Browser()
    except Unreachable as error:
        pytest.skip(str(error))
    with browser:
        yield browser


def new_box(request, folder):
    if request.param == "sqlite":
        box = Box("sqlite:%s" % (folder / "outbox.db"))
        box.cli("init")
        return box
    server, template = request.getfixturevalue("pg_server"), request.getfixturevalue("pg_template")
    return Box(database.create_database(server, "browser", template.name).url())


def fill(box):
    """What an operator finds at night: dead letters of two kinds, one of them hostile, a key that waits, and much that went well."""
    world = types.SimpleNamespace(box=box)
    world.evil = box.kill("orders.evil", json.dumps({"html": EVIL}), "--header", "x-evil=" + EVIL, "--key", EVIL, "--subject", EVIL,
                          code="http_400", error=EVIL)
    world.dead = [box.kill("orders.paid", json.dumps({"order": n}), code="http_503", error="503 from 10.0.0.%d after %d ms" % (n, n * 17))
                  for n in range(1, 5)]
    world.head = box.send("flaky", '{"stub": "retry:http_500"}', "--key", "order-7")
    world.waiting = [box.send("flaky", "{}", "--key", "order-7") for _ in range(3)]
    world.fine = box.send("orders.created", '{"id": 12345678901234567890, "price": 1.0}', "--key", "order-1", "--correlation-id", "req-9")
    return world


@pytest.fixture(scope="module", params=STORES)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    world = fill(new_box(request, folder))
    world.kind = request.param
    world.tokens = {role: world.box.json("token", "create", role, "--role", role)["token"] for role in ("viewer", "operator", "admin")}
    sinks = {"shop": {"kind": "stub"}, "bank": {"kind": "stub", "obey_payload": True, "retry": {"base": "1h", "cap": "1h"}}}
    routes = [{"topic": "flaky", "sink": "bank"}, {"sink": "shop"}]
    world.relay = Relay(folder, world.box.url, sinks, routes, admin=True)
    world.url = "http://127.0.0.1:%d/" % world.relay.port
    with world.relay.running():
        wait_for(lambda: world.relay.started(), what="the relay")
        wait_for(lambda: world.box.show(world.fine)["message"]["status"] == "delivered", what="a delivery")
        wait_for(lambda: world.box.show(world.head)["message"]["attempts"] == 1, what="a failure")
        world.open = lambda browser, role, view="", **options: browser.page(world.url, world.tokens[role], view, **options)
        yield world


def confirm(page, reason=None):
    """Answers the dialog of an act, and follows its job to the end."""
    if reason:
        page.fill("dialog input[name=reason]", reason)
    page.click("dialog button[type=submit]:not([disabled])")
    page.waitForSelector("dialog .is-done")
    page.click("dialog button.primary")


def status_of(world, id_):
    return world.box.show(id_)["message"]["status"]


def test_no_token_no_data(world, browser):
    """Y5: a form and nothing else; a wrong token is told so; a token in the address is taken out of it."""
    with browser.page(world.url) as page:
        page.waitForSelector("input#token")
        assert "orders" not in page.innerText("body")
        page.fill("input#token", "obx_wrong")
        page.press("Enter")
        page.reads(".problem", "token")
        page.fill("input#token", world.tokens["viewer"])
        page.press("Enter")
        page.waitForSelector(".tiles")
    with world.open(browser, "viewer") as page:
        assert "obx_" not in page.url()
        page.click("text=Log out")
        page.waitForSelector("input#token")
        assert page.evaluate("sessionStorage.length") == 0


def test_overview_says_what_is_wrong_first(world, browser):
    """V13 Y7 T5: troubles, then figures, then the parts."""
    with world.open(browser, "viewer") as page:
        page.waitForSelector(".troubles li.bad")
        assert "died within the hour" in page.innerText(".troubles")
        assert page.evaluate("document.querySelector('.screen').firstElementChild.querySelector('.troubles') !== null")
        for text in ("Delivered", "Latency p95", "Pending", "Oldest undelivered", "Dead"):
            page.reads(".tile .name", text)
        page.reads("section.panel td", "shop")
        page.reads("section.panel td", "orders.paid")
        page.reads("section.panel", "running")


def test_filter_box(world, browser):
    """V13: completion by keyboard, the filter in the address, rows by j and k, a mistake told where it is."""
    with world.open(browser, "viewer") as page:
        page.press("/")
        page.waitForSelector("#filter:focus")
        page.type("sta")
        page.reads("[role=option]", "status:")
        page.press("ArrowDown")
        page.press("Enter")
        page.type("dea")
        page.press("ArrowDown")
        page.press("Enter")
        page.type("topic:orders.paid")
        page.press("Enter")
        page.wait("location.hash.includes('status%3Adead')")
        page.settled()
        page.reads(".chips .count", "4 messages")
        assert page.evaluate("document.querySelectorAll('tr[data-href]').length") == 4
        page.press("Escape")
        page.press("Escape")
        page.press("j")
        page.press("j")
        page.press("k")
        page.press("Enter")
        page.wait("location.hash.startsWith('#/message/')")
        page.settled()
        assert world.dead[3] in page.url()  # newest first
        page.at("messages?filter=stat%3Adead")
        page.reads(".problem", "stat")


def test_one_message(world, browser):
    """N6 V13: explain is on top; the payload as it was written; headers, attempts, neighbours."""
    with world.open(browser, "viewer", "message/" + world.head) as page:
        assert "backoff" in page.innerText(".explain li:first-child")
        page.reads(".timeline li", "http_500")
        page.reads("section.panel tr", world.waiting[0][-4:])
        page.at("message/" + world.waiting[0])
        page.reads(".explain", world.head[:8])
        page.at("message/" + world.fine)
        assert '"id": 12345678901234567890' in page.innerText(".payload")
        assert '"price": 1.0' in page.innerText(".payload")
        page.click("button:text-is('hex')")
        page.reads(".payload", "00000000  7b")
        page.at("message/" + world.fine[:-4] + "0000")
        page.waitForSelector(".problem")


def test_hostile_message(world, browser):
    """V13: what comes from a message is text, on every screen that shows it."""
    with world.open(browser, "admin") as page:
        for view in ("overview", "messages", "message/" + world.evil, "failures", "keys", "jobs"):
            page.at(view)
            assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
            assert page.evaluate("window.hacked") is None
        page.at("message/" + world.evil)
        for selector in (".payload", ".facts", ".timeline"):
            page.reads(selector, "<img src=x")


def test_viewer_only_looks(world, browser):
    """Y5: acts say why they do nothing; the relay refuses them too."""
    with world.open(browser, "viewer", "messages?filter=status%3Adead") as page:
        assert page.evaluate("[...document.querySelectorAll('.acts button.danger')].every((b) => b.ariaDisabled === 'true')")
        page.click("text=Discard …", {"force": True})
        page.reads(".toast", "needs operator")
        page.at("tokens")
        page.reads(".screen", "needs admin")
        answer = page.evaluate("fetch('api/v1/acts', {method: 'POST', body: '{\"act\": \"discard\", \"filter\": \"status:dead\"}',"
                               " headers: {'Content-Type': 'application/json', Authorization: 'Bearer %s'}}).then((a) => a.status)" % world.tokens["viewer"])
        assert answer == 403
    assert status_of(world, world.evil) == "dead"


def test_retry_one(world, browser):
    """T4 Y5: a dead letter is retried from its page, delivered, and the act is on record with its reason."""
    with world.open(browser, "operator", "message/" + world.dead[0]) as page:
        page.click("text=Retry …")
        confirm(page, "receiver is back")
        wait_for(lambda: status_of(world, world.dead[0]) == "delivered", what="the delivery")
        page.press("r")
        page.reads(".title .badge", "delivered")
        page.reads(".timeline", "receiver is back")
    act, = world.box.show(world.dead[0])["acts"]
    assert (act["action"], act["reason"]) == ("retry", "receiver is back") and "operator" in act["actor"]


def test_failures_by_group(world, browser):
    """T4: errors that differ in numbers are one group; it is discarded as a whole."""
    left = [id_ for id_ in world.dead if status_of(world, id_) == "dead"]
    with world.open(browser, "operator", "failures") as page:
        page.reads(".group", "http_400")
        assert page.evaluate("[...document.querySelectorAll('.group')].filter((g) => g.textContent.includes('http_503')).length") == 1
        page.click(".group:has-text('http_503') >> text=Discard …")
        page.reads("dialog .count", "%d messages" % len(left))
        confirm(page, "sent by hand")
        page.reads("main", "http_400")
    assert [status_of(world, id_) for id_ in left] == ["discarded"] * len(left)


def test_expire_and_move(world, browser):
    """N10 T4: a delayed message is expired; dead, it is moved to a topic that is delivered."""
    later = world.box.send("orders.later", "{}", "--deliver-after", "+1h")
    with world.open(browser, "operator", "message/" + later) as page:
        page.click("text=Expire …")
        confirm(page, "too late")
        page.reads(".title .badge", "dead")
        page.click("text=Move …")
        page.fill("dialog input[name=topic]", "orders.moved")
        confirm(page)
    wait_for(lambda: [row["status"] for row in world.box.list("topic:orders.moved")] == ["delivered"], what="the moved one's delivery")


def test_chosen_rows(world, browser):
    """T4: acts on the rows that were chosen, and on no others."""
    sent = [world.box.send("orders.chosen", "{}", "--deliver-after", "+1h") for _ in range(3)]
    with world.open(browser, "operator", "messages?filter=topic%3Aorders.chosen+status%3Apending") as page:
        for id_ in sent[:2]:
            page.click("input[aria-label='Choose %s']" % id_)
        page.reads(".picked", "2 chosen")
        page.click("text=Expire …")
        confirm(page, "two of three")
    assert [status_of(world, id_) for id_ in sent] == ["dead", "dead", "pending"]


def test_bulk_act(world, browser):
    """T4 N10: count and sample, a reason that must be given, progress, and a cancel that leaves the rest."""
    sent = [world.box.send("orders.bulk", "{}") for _ in range(6)]
    wait_for(lambda: all(status_of(world, id_) == "delivered" for id_ in sent), what="the deliveries")
    with world.open(browser, "operator", "messages?filter=topic%3Aorders.bulk+status%3Adelivered") as page:
        page.click("text=Redeliver …")
        page.reads("dialog .count", "6 messages")
        page.click("dialog button[type=submit]")
        assert page.evaluate("document.querySelector('dialog input[name=reason]').matches(':invalid')")
        page.fill("dialog input[name=rate]", "1")
        page.fill("dialog input[name=reason]", "lost by the receiver")
        page.press("Enter")
        wait_for(lambda: len(world.box.list("topic:orders.bulk")) > len(sent), what="the first of them")
        page.click("dialog >> text=Cancel the job")
        page.waitForSelector("dialog .is-cancelled")
        page.click("dialog button.primary")
        page.at("jobs")
        page.reads("td", "cancelled")
        page.reads("main", "lost by the receiver")
    again = len(world.box.list("topic:orders.bulk")) - len(sent)
    assert again < 6


def test_keys(world, browser):
    """N2: which key waits behind what; skipping the head lets the others go."""
    with world.open(browser, "operator", "keys") as page:
        page.reads("tr[data-href]", "order-7")
        page.click("tr:has-text('order-7') >> text=Skip the head …")
        confirm(page, "poison")
    wait_for(lambda: [status_of(world, id_) for id_ in world.waiting] == ["delivered"] * 3, what="the deliveries behind it")


def test_sinks(world, browser):
    """V13 T5: pause, resume, tune and reset, each on record."""
    with world.open(browser, "operator", "sinks") as page:
        page.click("tr:has-text('bank') >> text=Pause …")
        page.fill("dialog input[name=reason]", "maintenance")
        page.click("dialog button[type=submit]")
        page.reads("td", "sink bank")
        pause, = world.box.json("status")["pauses"]
        assert (pause["sink"], pause["reason"]) == ("bank", "maintenance")
        page.click("section:has(h2:text-is('Pauses')) >> text=Resume …")
        page.click("dialog button[type=submit]")
        page.reads("main", "Nothing is paused")
        page.click("tr:has-text('bank') >> text=Concurrency …")
        page.fill("dialog input[name=value]", "3")
        page.click("dialog button[type=submit]")
        page.reads("td", "sink.bank.concurrency")
        tuning, = world.box.json("status")["tunings"]
        assert (tuning["name"], tuning["value"]) == ("sink.bank.concurrency", "3")
        page.click("text=Reset …")
        page.click("dialog button[type=submit]")
        page.reads("main", "No setting is tuned")


def test_tokens(world, browser):
    """Y5: made once, shown once, refused after it is revoked."""
    with world.open(browser, "admin", "tokens") as page:
        page.click("text=Create a token …")
        page.fill("dialog input[name=name]", "night")
        page.click("dialog button[type=submit]")
        page.waitForSelector("dialog .secret")
        made = page.innerText("dialog .secret code")
        page.press("Escape")
        page.reads("td", "night")
        assert made.startswith("obx_")
        page.until("!document.body.textContent.includes('%s')" % made)  # once the dialog is closed
        with browser.page(world.url, made) as other:
            other.waitForSelector(".tiles")
            page.click("tr:has-text('night') >> text=Revoke …")
            page.click("dialog button[type=submit]")
            page.reads(".toast", "Revoked")
            other.press("2")
            other.waitForSelector("input#token")


def test_copy_as(world, browser):
    """V13: the same question as a command, SQL and curl; the first two are run."""
    with world.open(browser, "viewer", "messages?filter=topic%3Aorders.e*+error%3A~IMG+age%3A%3C1d") as page:
        page.click("text=Copy as …")
        cli, sql, curl = (page.innerText(".copyas:nth-child(%d) pre" % n) for n in (1, 2, 3))
        assert "obx_" not in curl
    assert cli == "outbox list 'topic:orders.e*' 'error:~IMG' 'age:<1d'"
    assert [row["id"] for row in world.box.list("topic:orders.e*", "error:~IMG", "age:<1d")] == [world.evil]
    if world.kind == "sqlite":
        import sqlite3
        rows = sqlite3.connect(world.box.url[len("sqlite:"):]).execute(sql).fetchall()
    else:
        import psycopg
        rows = psycopg.connect(world.box.url).execute(sql).fetchall()
    assert [str(row[0]) for row in rows] == [world.evil]


LOOKS = {"sqlite": {"light": DESKTOP, "phone": PHONE}, "postgresql": {"dark": DARK}}


def test_looks(world, browser):
    """Y7: no serious finding of axe on any screen; nothing is wider than the window. Pictures: build/screenshots."""
    os.makedirs(SHOTS, exist_ok=True)
    findings = []
    for name, options in LOOKS[world.kind].items():
        with world.open(browser, "admin", **options) as page:
            for view in [*SCREENS, "message/" + world.evil]:
                page.at(view)
                page.screenshot({"path": os.path.join(SHOTS, "%s-%s.png" % (view.split("/")[0], name)), "fullPage": True})
                findings += page.axe()["serious"]
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
    assert findings == []


def test_keys_and_theme(world, browser):
    """Y7: help, the screens by number, dark and light by a switch that is remembered."""
    with world.open(browser, "viewer") as page:
        page.press("?")
        page.reads("dialog", "to the filter")
        assert page.axe()["serious"] == []
        page.press("Escape")
        page.press("3")
        page.wait("location.hash === '#/failures'")
        page.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.evaluate("location.reload()")
        page.wait("document.documentElement.dataset.theme === 'dark'")
