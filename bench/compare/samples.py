"""Results of scenarios, read back: medians, spreads, labels."""
import json
import os
import statistics

SCENARIOS = ("drain", "latency", "producer", "life", "weather", "webhooks")
OWN = ("enqueue-bare", "takers", "held-xmin", "relay-kafka", "relay-memory")  # of bench/run


def read(folder, names, prefix=""):
    found = {}
    for name in names:
        path = os.path.join(folder, "%s%s.json" % (prefix, name))
        if os.path.exists(path):
            with open(path) as file:
                found[name] = json.load(file)
    return found


class Samples:
    """The samples of a scenario. Quiet ones count; where there are none, the others do, and are marked."""

    def __init__(self, data):
        self.data, self.rows = data, data["samples"]

    def pick(self, system, **wanted):
        rows = [row for row in self.rows if row["system"] == system and
                all(row.get(key) == value for key, value in wanted.items())]
        return [row for row in rows if not row["noisy"]] or rows

    def values(self, system, field, **wanted):
        return [row[field] for row in self.pick(system, **wanted) if row.get(field) is not None]

    def median(self, system, field, **wanted):
        values = self.values(system, field, **wanted)
        return statistics.median(values) if values else None

    def spread(self, system, field, **wanted):
        values = self.values(system, field, **wanted)
        return (min(values), max(values)) if values else (0, 0)

    def marked(self, system, **wanted):
        return any(row["noisy"] for row in self.pick(system, **wanted))

    def systems(self):
        return [name for name in self.data["systems"] if any(row["system"] == name for row in self.rows)]

    def peers(self, per_message=False):
        """Neither Outbox nor the floor nor what a producer does without a queue."""
        return [name for name in self.systems() if not name.startswith("outbox") and
                name not in ("floor", "alone", "plain", "bare") and
                (self.data["systems"][name]["per_message"] or not per_message)]

    def label(self, system):
        return self.data["systems"][system]["label"]

    def best(self, field, among, lowest=False, **wanted):
        """(name, value) of the best of them."""
        found = [(self.median(name, field, **wanted), name) for name in among
                 if self.median(name, field, **wanted) is not None]
        return (min(found) if lowest else max(found))[::-1] if found else (None, None)

    # ---- latency over load ----

    def between(self, system, field, rate):
        """A figure read from the curve: on the straight line between the rates that were measured."""
        points = sorted((at, self.median(system, field, part="curve", rate=at)) for at in
                        {row["rate"] for row in self.rows if row["system"] == system and row.get("part") == "curve"})
        if not points:
            return None
        below = [point for point in points if point[0] <= rate] or points[:1]
        above = [point for point in points if point[0] >= rate] or points[-1:]
        (low, first), (high, last) = below[-1], above[0]
        return first if high == low else first + (last - first) * (rate - low) / (high - low)

    def highest(self, system):
        """The rate that it sustained: the median of what was found, else the highest step of its curve; None: no step."""
        found = [row["rate"] for row in self.data.get("highest", []) if row["system"] == system]
        steps = [row["rate"] for row in self.rows if row["system"] == system and row.get("part") == "curve" and
                 row["sustained"]]
        return statistics.median(found) if found else max(steps) if steps else None

    def held(self, system):
        """The rate that it sustained for half a minute."""
        found = [row["rate"] for row in self.pick(system, part="held") if row["sustained"]]
        return max(found) if found else None

    def at_share(self, system, field, share):
        """(value, whether it was measured there)"""
        value = self.median(system, field, part="share", share=share)
        if value is None and self.highest(system):
            return self.between(system, field, share * self.highest(system)), False
        return value, True
