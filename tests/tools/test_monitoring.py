"""The monitoring kit: rules tested minute by minute by promtool, and the check that rejects a kit that cannot work.

Proves: S16 (age, dead growth, stuck messages, retry spike), Y6 (critical and warning levels).
"""
import copy
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KIT = os.path.join(ROOT, "monitoring")
loader = importlib.machinery.SourceFileLoader("check_monitoring", os.path.join(ROOT, "tools", "check-monitoring"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(check)

KNOWN = check.metrics(check.read("def/metrics.def"))
PAGE = "# X\n\n## Look\n\n```sh\noutbox status\noutbox explain ID\n```\n"
RULE = {"alert": "X", "expr": "outbox_dead > 1", "labels": {"severity": "warning"},
        "annotations": {"summary": "s", "runbook": "docs/runbooks/X.md"}}
TESTS = {"tests": [{"alert_rule_test": [{"alertname": "X", "exp_alerts": [{}]}]}]}


def promtool(*args, cwd=KIT):
    return subprocess.run(["promtool", *args], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)


def test_the_rules_fire_when_they_should():
    """S16 Y6: every case of monitoring/alerts_test.yml, and the syntax of the rules."""
    for args in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = promtool(*args)
        assert done.returncode == 0 and "FAILED" not in done.stdout, done.stdout


def test_a_rule_with_another_limit_is_seen(tmp_path):
    """S16 Y6: the cases can fail: each limit made ten times as high breaks at least one of them."""
    with open(os.path.join(KIT, "alerts.yml")) as file:
        rules = yaml.safe_load(file)
    (tmp_path / "alerts_test.yml").write_text(check.read("monitoring/alerts_test.yml"))
    changed = copy.deepcopy(rules)
    for group in changed["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"(?<=> )(\d+)$", lambda match: str(int(match.group()) * 10 + 9), rule["expr"])
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(changed))
    failed = promtool("test", "rules", "alerts_test.yml", cwd=tmp_path).stdout
    limits = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if re.search(r"> \d+$", rule["expr"])}
    assert len(limits) > 10
    assert limits - set(re.findall(r"alertname:\s*(\w+)", failed)) == set(), failed


@pytest.mark.parametrize("expr, wrong", [
    ("outbox_dead > 1", []),
    ("sum by (store, sink) (rate(outbox_delivery_seconds_bucket{le=\"1\"}[5m]))", []),
    ("outbox_up unless on (instance) process_cpu_seconds_total{job=~\"x.*\"}", []),
    ("outbox_daed > 1", ["no such metric: outbox_daed"]),
    ("rate(outbox_delivery_seconds[5m])", ["no such metric: outbox_delivery_seconds"]),
    ("node_load1 > 4", ["no such metric: node_load1"]),
    ("outbox_dead{topic=\"a\"}", ["outbox_dead has no label topic"]),
    ("max by (sink) (outbox_dead)", ["no metric of it has the label sink"]),
])
def test_only_metrics_that_exist(expr, wrong):
    """S16: a name that no relay has, a label that the metric has not."""
    assert list(check.offences(expr, KNOWN)) == wrong


@pytest.mark.parametrize("change, pages, told", [
    ({}, {"X": PAGE}, None),
    ({"expr": "outbox_nothing > 1"}, {"X": PAGE}, "no such metric"),
    ({"labels": {"severity": "loud"}}, {"X": PAGE}, "severity"),
    ({"annotations": {"summary": "s", "runbook": "docs/runbooks/Y.md"}}, {"X": PAGE}, "its page is"),
    ({"annotations": {"runbook": "docs/runbooks/X.md"}}, {"X": PAGE}, "no summary"),
    ({}, {}, "its page is"),
    ({}, {"X": PAGE, "Y": PAGE}, "there is no such alert"),
    ({}, {"X": "# X\n\nCall somebody.\n"}, "does not begin with a look"),
    ({"alert": "Y", "annotations": {"summary": "s", "runbook": "docs/runbooks/Y.md"}}, {"Y": PAGE}, "no test in"),
])
def test_every_alert_has_a_page_and_a_test(change, pages, told):
    """S16: and every page an alert; what is missing is said."""
    found = list(check.check_alerts({"groups": [{"rules": [{**RULE, **change}]}]}, TESTS, pages, KNOWN))
    assert (not found) if told is None else any(told in line for line in found), found


def test_a_dashboard_of_unknown_metrics_is_seen():
    """S16: a panel of a metric that is not there, one without a query, two of one id."""
    board = json.loads(check.read("monitoring/grafana.json"))
    assert list(check.check_dashboard(board, KNOWN)) == []
    charts = [panel for panel in board["panels"] if panel["type"] != "row"]
    charts[0]["targets"][0]["expr"] = "sum(outbox_daed)"
    charts[1]["targets"] = []
    charts[2]["id"] = charts[3]["id"]
    board["templating"]["list"][1]["query"] = "label_values(outbox_up, store)"
    assert len(list(check.check_dashboard(board, KNOWN))) == 4
