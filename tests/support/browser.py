"""A real browser: Debian's chromium, driven by playwright-core through tests/browser/driver.mjs. One for all tests of a file.

    with Browser() as browser:
        with browser.page(url, token="obx_…") as page:
            page.click("text=Messages")
            assert page.innerText("h1") == "Messages"

A page refuses to close quietly: an error in a script, a violation of the content policy or a request to anywhere else fails the test.
npm's packages are fetched once, pinned by tests/browser/package-lock.json, and kept in ${XDG_CACHE_HOME:-~/.cache}/outbox/browser.
"""
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import urllib.parse

from support.under import PATIENCE

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "browser")
TIMEOUT = 20  # seconds until something must be on the page

DESKTOP = {"viewport": {"width": 1280, "height": 850}, "colorScheme": "light"}
DARK = {**DESKTOP, "colorScheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}, "colorScheme": "light"}


class Unreachable(Exception):
    """No browser, or no packages; the text says why."""


def packages():
    """A folder with the packages and the driver; fetched unless they are kept."""
    with open(os.path.join(FOLDER, "package-lock.json"), "rb") as file:
        version = hashlib.sha256(file.read()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "outbox", "browser", version)
    if not os.path.isdir(folder):
        fetching = "%s.%d" % (folder, os.getpid())
        os.makedirs(fetching)
        try:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(FOLDER, name), fetching)
            done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=fetching, text=True, timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                raise Unreachable("npm cannot fetch playwright-core and axe-core")
            with contextlib.suppress(OSError):  # another run was faster
                os.rename(fetching, folder)
        finally:
            shutil.rmtree(fetching, ignore_errors=True)
    shutil.copy(os.path.join(FOLDER, "driver.mjs"), folder)
    return folder


class Browser:
    def __init__(self):
        for command in ("node", "npm", "chromium"):
            if not shutil.which(command):
                raise Unreachable("%s is not installed" % command)
        self.process = subprocess.Popen(["node", "driver.mjs"], cwd=packages(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "CHROMIUM": shutil.which("chromium")})
        self.calls = 0

    def call(self, page, call, *args):
        self.calls += 1
        self.process.stdin.write(json.dumps({"id": self.calls, "page": page, "call": call, "args": args}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the browser is gone"
        answer = json.loads(line)
        assert "error" not in answer, "%s%s: %s" % (call, args, answer["error"])
        return answer.get("value")

    @contextlib.contextmanager
    def page(self, url, token=None, view="", **options):
        """A page with this token, at this view: "messages?filter=…"."""
        page = Page(self, url, {**DESKTOP, **options})
        failed = True
        try:
            page.goto(url + ("#token=" + token if token else ""))
            if token:
                page.waitForSelector("header.top")
            if view:
                page.at(view)
            yield page
            failed = False
        finally:
            page.close(failed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.stdout.close()


class Page:
    """Calls that are not here are those of playwright's page."""

    def __init__(self, browser, url, options):
        self.browser, self.origin = browser, "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(url))
        self.number = browser.call(None, "open", {**options, "timeout": TIMEOUT * PATIENCE * 1000})

    def __getattr__(self, name):
        return lambda *args: self.browser.call(self.number, name, *args)

    def at(self, view):
        """Goes to a view by its address."""
        self.evaluate("location.hash = %s" % json.dumps("#/" + view))
        self.settled()

    def settled(self):
        """Until the screen that the address names is there, with its content."""
        self.wait("document.querySelector('main:not([aria-busy])')?.dataset.at === location.hash")

    def wait(self, script):
        self.until(script)

    def reads(self, selector, text):
        """Until an element has this text."""
        self.until("[...document.querySelectorAll(%s)].some((node) => node.textContent.includes(%s))"
                   % (json.dumps(selector), json.dumps(text)))

    def close(self, failed):
        said = self.browser.call(self.number, "close")
        if not failed:
            assert not said["faults"], said["faults"]
            assert said["origins"] == [self.origin], said["origins"]
