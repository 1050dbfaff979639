"""A real Prometheus on a free port, that scrapes relays every half second and evaluates the rules of monitoring/alerts.yml.

    with Prometheus(tmp_path) as prometheus:
        prometheus.scrape(relay.port)
        prometheus.wait_for_alert("OutboxSinkDown", "warning", sink="billing")

The `for:` of every rule is one second, so that a test need not wait; the expressions are those of the file.
"""
import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from support.database import ROOT
from support.pgserver import free_port
from support.relay import wait_for

CONFIG = {"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"}, "rule_files": ["alerts.yml"],
          "scrape_configs": [{"job_name": "outbox", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}]}]}


class Prometheus:
    def __init__(self, folder):
        self.folder, self.port, self.ports = folder, free_port(), []
        folder.mkdir(parents=True, exist_ok=True)
        with open(os.path.join(ROOT, "monitoring", "alerts.yml")) as file:
            rules = yaml.safe_load(file)
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule["for"] = "1s"
        (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(CONFIG))
        self._targets()

    def _targets(self):
        """In one step: Prometheus may read it at any time."""
        new = self.folder / "targets.json.new"
        new.write_text(json.dumps([{"targets": ["127.0.0.1:%d" % port for port in self.ports]}]))
        new.rename(self.folder / "targets.json")

    def __enter__(self):
        with open(self.folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn",
                 "--web.listen-address=127.0.0.1:%d" % self.port], cwd=self.folder, stdout=log, stderr=log)
        try:
            wait_for(self._ready, timeout=60, what="a Prometheus that is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ready(self):
        assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/-/ready" % self.port, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, path, **query):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port, path, urllib.parse.urlencode(query))
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def scrape(self, port):
        self.ports.append(port)
        self._targets()

    def forget(self, port):
        self.ports.remove(port)
        self._targets()

    def firing(self, name):
        """The labels of each alert of this name that fires."""
        return [alert["labels"] for alert in self.ask("alerts")["alerts"]
                if alert["state"] == "firing" and alert["labels"]["alertname"] == name]

    def fires(self, name, severity, **labels):
        wanted = {"severity": severity, **labels}
        return any(wanted.items() <= found.items() for found in self.firing(name))

    def wait_for_alert(self, name, severity, **labels):
        wait_for(lambda: self.fires(name, severity, **labels) or time.sleep(0.2), timeout=60,
                 what=lambda: "%s (%s, %s); there are %s" % (name, severity, labels, self.ask("alerts")["alerts"]))
