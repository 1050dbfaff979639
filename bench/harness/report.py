"""Tables for people and a JSON file for machines.

A measurement adds samples (raw), prints tables, and holds its bars with check(). Wall-clock decides a bar; the ratio of
the backends' CPU time stands beside it, since it suffers least from a busy machine.
"""
import datetime
import json
import os
import statistics

from harness import facts


class Report:
    def __init__(self, name, title, bench):
        self.data = {
            "name": name,
            "title": title,
            "quick": bench.quick,
            "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": facts.machine(),
            "load_before": facts.load(),
            "postgresql": bench.version(),
            "settings": bench.settings(),
            "samples": [],
            "medians": {},
            "checks": [],
            "notes": [],
        }

    def sample(self, label, **values):
        """One raw measurement; returns it."""
        row = {"label": label, **values}
        self.data["samples"].append(row)
        return row

    def values(self, label, field):
        return [row[field] for row in self.data["samples"] if row["label"] == label and field in row]

    def median(self, label, field):
        value = statistics.median(self.values(label, field))
        self.data["medians"]["%s.%s" % (label, field)] = value
        return value

    def note(self, text):
        self.data["notes"].append(text)
        print("  " + text, flush=True)

    def table(self, head, rows):
        """Prints a table; the first column is text, the others numbers."""
        texts = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in [head] + rows]
        widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
        for row in texts:
            print("  " + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        print(flush=True)

    def check(self, what, value, bar, cpu=None, at_most=False):
        """A bar: value must reach it, or stay under it with at_most. cpu is the same ratio by CPU time."""
        passed = value <= bar if at_most else value >= bar
        row = {"what": what, "value": value, "bar": bar, "at_most": at_most, "cpu": cpu, "pass": passed}
        self.data["checks"].append(row)
        print("  " + check_text(row), flush=True)

    def finish(self, folder):
        self.data["load_after"] = facts.load()
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, self.data["name"] + ".json"), "w") as file:
            json.dump(self.data, file, indent=1)
            file.write("\n")


def number(value):
    if value is None:
        return "-"
    if isinstance(value, int) or abs(value) >= 1000:
        return "{:,.0f}".format(value)
    return "%.1f" % value if abs(value) >= 100 else "%.2f" % value


def check_text(row):
    cpu = "" if row["cpu"] is None else "  (by CPU time %.2f)" % row["cpu"]
    return "%s  %s: %.2f, must be %s %.2f%s" % ("pass" if row["pass"] else "MISS", row["what"], row["value"],
                                               "<=" if row["at_most"] else ">=", row["bar"], cpu)


def summary(results):
    """Every bar once more; returns how many were missed."""
    print("\n== all bars")
    missed = 0
    for name, result in results:
        if result is None:
            print("  FAILED  %s could not be measured" % name)
            continue
        for row in result.data["checks"]:
            print("  %s" % check_text(row))
            missed += not row["pass"]
    print("  %d missed" % missed, flush=True)
    return missed
