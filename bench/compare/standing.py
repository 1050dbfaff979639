"""Where Outbox stands: every bar, what was measured, beside whom, the ratio, and whether it is reached."""
import statistics

from compare.samples import Samples


def cell(value, digits=None):
    if value is None:
        return "–"
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1
    return "{:,.{}f}".format(value, digits)


class Bar:
    """what | ours | beside | ratio | bar | reached. ratio None: not measured."""

    def __init__(self, what, bar, at_most=False, ours="–", beside="–", ratio=None, samples=None):
        self.what, self.bar, self.at_most, self.ours, self.beside = what, bar, at_most, ours, beside
        self.ratio, self.samples = ratio, samples

    def row(self):
        digits = 0 if self.bar and self.bar >= 10 else 2
        reached = "" if not self.bar else "not measured" if self.ratio is None else (
            "**yes**" if (self.ratio <= self.bar if self.at_most else self.ratio >= self.bar) else "**no**")
        return [self.what, self.ours, self.beside, cell(self.ratio, digits),
                "" if not self.bar else "%s %g" % ("≤" if self.at_most else "≥", self.bar),
                reached, cell(self.samples, 0) if self.samples else "–"]


HEAD = ["what", "Outbox", "beside", "ratio", "bar", "reached", "samples"]


def bars(results, own):
    return [*drain(results), *takers(own), *enqueue(own), *producer(results), *life(results), *latency(results), *held(own),
            *weather(results), *memory(results, own), *kafka(own)]


def ratio(above, below):
    return above / below if above and below else None


def part(results, name):
    return Samples(results.get(name) or {"samples": [], "systems": {}})


def per(value, unit):
    return "–" if value is None else cell(value) + unit


def drain(results):
    samples = part(results, "drain")
    floor = samples.median("floor", "server_us")
    for name, label, bar in (("outbox", "no keys", 0.85), ("outbox-keys", "1,000 keys", 0.8)):
        cpu = samples.median(name, "server_us")
        yield Bar("drain, %s: floor's server CPU ÷ ours" % label, bar, ours=per(cpu, " µs"), beside="floor " + per(floor, " µs"),
                  ratio=ratio(floor, cpu), samples=len(samples.values(name, "server_us")))
    rate, count = samples.median("outbox", "rate"), len(samples.values("outbox", "rate"))
    best, its = samples.best("rate", samples.peers(per_message=True))
    yield Bar("drain through `outbox run` ÷ best peer with state per message", 2, ours=per(rate, "/s"),
              beside="%s %s" % (samples.label(best), per(its, "/s")) if best else "–", ratio=ratio(rate, its), samples=count)
    pgq = samples.median("pgq", "rate")
    yield Bar("the same ÷ PgQ's bulk read", 0.5, ours=per(rate, "/s"), beside="PgQ " + per(pgq, "/s"), ratio=ratio(rate, pgq),
              samples=count)


def rates_of(data, field, *labels):
    return {label: statistics.median(values) for label in labels
            for values in [[row[field] for row in (data or {}).get("samples", []) if row["label"] == label and field in row]]
            if values}


def takers(own):
    data = own.get("takers")
    for lane, label in (("log, no keys", "no keys"), ("log, 1000 keys", "1,000 keys")):
        found = rates_of(data, "rate", *("%s, %d takers" % (lane, count) for count in (1, 2, 4, 8, 16)))
        most = found.pop(lane + ", 16 takers", None)
        best = max(found, key=found.get) if found else None
        yield Bar("16 takers of 100 ÷ best smaller number, %s" % label, 0.9, ours=per(most, "/s"),
                  beside="%s %s" % (best.split(", ")[-1], per(found[best], "/s")) if best else "–",
                  ratio=ratio(most, found.get(best)), samples=rounds(data, lane + ", 16 takers"))


def rounds(data, label):
    return sum(1 for row in (data or {}).get("samples", []) if row["label"] == label)


def enqueue(own):
    data = own.get("enqueue-bare")
    medians = (data or {}).get("medians", {})
    for how, text in (("transaction", "one a transaction"), ("statement", "100 in a transaction"), ("bulk", "500 in a statement")):
        mine, bare = (medians.get("%s.%s_us" % (name, how)) for name in ("plain", "bare"))
        yield Bar("enqueue ÷ function that only inserts the row, backend CPU, %s" % text, 1.6, at_most=True,
                  ours=per(mine, " µs"), beside=per(bare, " µs"), ratio=ratio(mine, bare), samples=rounds(data, "plain"))


def producer(results):
    samples = part(results, "producer")
    alone, plain = (samples.median(name, "tps", clients=8, awake=False) for name in ("alone", "plain"))
    polled = samples.median("floor", "tps", clients=8, awake=True)
    for name, label in (("outbox", "no keys"), ("outbox-keys", "1,000 keys")):
        mine = samples.median(name, "tps", clients=8, awake=True)
        count = len(samples.values(name, "tps", clients=8, awake=True))
        shown = "%s (%s of alone)" % (per(mine, " tps"), cell(ratio(mine, alone), 2))
        yield Bar("business transaction + enqueue, 8 clients, relay awake, %s ÷ plain insert that nobody reads" % label, 0.95,
                  ours=shown, beside=per(plain, " tps"), ratio=ratio(mine, plain), samples=count)
        yield Bar("the same ÷ insert into a table that is polled every 5 ms", None, ours=shown, beside=per(polled, " tps"),
                  ratio=ratio(mine, polled), samples=count)


def life(results):
    """Enqueued and delivered; what the first vacuum adds is said beside it."""
    samples = part(results, "life")
    peers = {name: written(samples, name) for name in samples.peers(per_message=True)}
    peer = min(peers, key=peers.get) if peers else None
    for name, label, bar in (("outbox", "no keys", 650), ("outbox-keys", "1,000 keys", 800)):
        mine, vacuum = written(samples, name), samples.median(name, "vacuum_wal")
        yield Bar("WAL bytes over a message's life, %s" % label, bar, at_most=True,
                  ours="%s, and %s by vacuum" % (per(mine, " B"), per(vacuum, " B")) if mine else "–",
                  beside="%s %s, and %s" % (samples.label(peer), per(peers[peer], " B"),
                                            per(samples.median(peer, "vacuum_wal"), " B")) if peer else "–",
                  ratio=mine, samples=len(samples.values(name, "wal")))


def written(samples, name):
    parts = [samples.median(name, field) for field in ("enqueue_wal", "deliver_wal")]
    return None if None in parts else sum(parts)


def latency(results):
    samples = part(results, "latency")
    highest = {name: samples.highest(name) for name in samples.peers() if samples.highest(name)}
    best, mine = max(highest, key=highest.get) if highest else None, samples.highest("outbox")
    found = sum(1 for row in samples.data.get("highest", []) if row["system"] == "outbox")
    held = samples.held("outbox")
    yield Bar("end to end, highest sustained rate ÷ best peer", 1.5,
              ours=per(mine, "/s") + (" (%s for 30 s)" % per(held, "/s") if held else ""),
              beside="%s %s" % (samples.label(best), per(highest[best], "/s")) if best else "–",
              ratio=ratio(mine, highest.get(best)), samples=found)
    halves = {name: samples.at_share(name, "p99", 0.5)[0] for name in highest}
    halves = {name: value for name, value in halves.items() if value is not None and highest[name] >= 0.5 * highest[best]}
    ours, _ = samples.at_share("outbox", "p99", 0.5)
    least = min(halves, key=halves.get) if halves else None
    count = len(samples.values("outbox", "p99", part="share", share=0.5))
    yield Bar("p99 at half of its highest rate ÷ best peer's at half of its own (of those with half the best peer's rate)", 1,
              at_most=True, ours=per(ours, " ms"), beside="%s %s" % (samples.label(least), per(halves[least], " ms")) if least
              else "–", ratio=ratio(ours, halves.get(least)), samples=count)
    if best:
        rate = 0.5 * highest[best]
        ours, its = samples.between("outbox", "p99", rate), samples.at_share(best, "p99", 0.5)[0]
        yield Bar("p99 of both at half of the best peer's highest rate (ours read from the curve)", 1, at_most=True,
                  ours=per(ours, " ms"), beside="%s %s" % (samples.label(best), per(its, " ms")), ratio=ratio(ours, its))
    mine, floor = (samples.median(name, "p50", part="curve", rate=2000) for name in ("outbox", "floor"))
    yield Bar("p50 at 2,000/s ÷ bare table with a 5 ms poll", 1, at_most=True, ours=per(mine, " ms"),
              beside=per(floor, " ms"), ratio=ratio(mine, floor),
              samples=len(samples.values("outbox", "p50", part="curve", rate=2000)))
    points = {rate: samples.median("outbox", "p50", part="curve", rate=rate)
              for rate in sorted({row["rate"] for row in samples.rows if row.get("part") == "curve"}) if rate <= 5000}
    points = {rate: value for rate, value in points.items() if value is not None}
    worst = max(points, key=points.get) if points else None
    yield Bar("p50 from 1 to 5,000/s, the worst, ms", 3, at_most=True,
              ours=", ".join("%s/s: %s" % (cell(rate, 0), cell(value)) for rate, value in points.items()) or "–",
              ratio=points.get(worst))


def held(own):
    data = own.get("held-xmin")
    for lane, label in (("log, no keys, held", "no keys"), ("log, 1000 keys, held", "1,000 keys")):
        found = rates_of(data, "cpu_ratio", lane).get(lane)
        yield Bar("held xmin, batches of 50, %s: CPU of the last quarter ÷ first" % label, 1.3, at_most=True, ratio=found,
                  samples=rounds(data, lane))


def weather(results):
    samples = part(results, "weather")
    for name, label, calm, bar in (("outbox", "backlog", "calm", 0.9), ("outbox-keys", "poisoned key", "calm, plugin", 0.9),
                                   ("outbox", "straggler", "calm, plugin", 0.9), ("outbox-keys", "straggler", "calm, plugin", 0.9),
                                   ("outbox", "held xmin", "calm", None), ("outbox", "64 workers", "calm", None),
                                   ("outbox", "silent receiver", "calm, plugin", None)):
        rough, smooth = (samples.median(name, "rate", label=one) for one in (label, calm))
        size = samples.median(name, "count", label=label)
        what = "%s%s%s ÷ calm" % (label, " of %s" % cell(size, 0) if label == "backlog" and size else "",
                                 ", 1,000 keys" if name == "outbox-keys" else "")
        yield Bar(what, bar, ours=per(rough, "/s"), beside=per(smooth, "/s"), ratio=ratio(rough, smooth),
                  samples=len(samples.values(name, "rate", label=label)))


def memory(results, own):
    peaks = {row["label"]: row["peak_mb"] for row in (own.get("relay-memory") or {}).get("samples", [])}
    weather_rows = part(results, "weather").rows
    for row in weather_rows:
        if row["system"].startswith("outbox") and row.get("peak_mb") and "plugin" not in row["label"]:
            if row["label"] in ("backlog", "calm"):  # the plugin's stamps are not the relay's memory
                label = "%s %s" % (row["label"], cell(row["count"], 0))
                peaks[label] = max(row["peak_mb"], peaks.get(label, 0))
    worst = max(peaks, key=peaks.get) if peaks else None
    large = [value for label, value in peaks.items() if "megabyte" in label]
    yield Bar("relay: peak memory, MB, at any backlog and payload", 64, at_most=True,
              ours="%s MB (%s); megabyte payloads %s MB" % (cell(peaks[worst], 0), worst, cell(max(large), 0) if large else "–")
              if worst else "–", ratio=peaks.get(worst))


def kafka(own):
    data = own.get("relay-kafka")
    found = rates_of(data, "rate", "raw", "null", "kafka")
    count = rounds(data, "kafka")
    for other, label, bar in (("null", "null sink", 0.8), ("raw", "librdkafka on its own", None)):
        yield Bar("Kafka ÷ %s" % label, bar, ours=per(found.get("kafka"), "/s"), beside=per(found.get(other), "/s"),
                  ratio=ratio(found.get("kafka"), found.get(other)), samples=count)
