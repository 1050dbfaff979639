"""From COMMIT to the handler, over the rate of producers: a curve for each system, and the highest rate it sustains.

The highest rate is looked for in steps of an eighth, above the highest step of the curve that was sustained, again in every
round: of Outbox and of the peers that came furthest. The median of the rounds counts, and is held for half a minute at the end."""
import statistics

from compare import load

NAME, TITLE = "latency", "latency over load: one business row and one message a transaction"
RATES = [100, 500, 1000, 2000, 5000, 8000]
LOW = [1, 10]              # messages a second, of Outbox and the floor only
SHARES = [0.1, 0.5, 0.9]   # of the highest sustained rate
STEP, TRIES = 1.125, (6, 4)  # of the search: samples of the first one, and of a later one
FINALISTS = 2              # peers beside Outbox; from the second round on only the better one


def seconds_of(lab):
    return lab.options.seconds or (1.5 if lab.quick else 2.5 if lab.brief else 10.0)


def rates_of(lab):
    return [int(word) for word in lab.options.rates.split(",") if word] or ([100, 500] if lab.quick else RATES)


def at(lab, system, rate, seconds=None, part="curve", **facts):
    seconds = seconds or seconds_of(lab)
    return lab.take(system, "%d/s%s" % (rate, "" if part == "curve" else ", " + part),
                    lambda: load.at_rate(lab, system, rate, seconds), part=part, **facts)


def curve(lab, system):
    """Up to the first rate that it does not sustain; remembers the highest that it does."""
    highest, cost = 0, 1e9
    for rate in rates_of(lab):
        row = at(lab, system, rate)
        if not row or not row["sustained"]:
            break
        highest, cost = rate, row["server_us"]
    lab.memory.setdefault(NAME, {})[system.name] = {"level": highest, "cost": cost, "found": []}


def finalists(lab, systems):
    """Outbox and the peers that came furthest; of those that came as far, who leaves most of the server's time."""
    seen = lab.memory.get(NAME, {})
    peers = [one for one in systems if not one.ours and one.name != "floor" and seen.get(one.name, {}).get("level")]
    peers.sort(key=lambda one: (-seen[one.name]["level"], seen[one.name]["cost"]))
    return [one for one in systems if one.name == "outbox" and seen.get("outbox", {}).get("level")] + peers[:FINALISTS]


def search(lab, system):
    """One more finding of the highest rate, from the last one on: up while it is sustained, or down until it is."""
    state = lab.memory[NAME][system.name]
    level = statistics.median(state["found"]) if state["found"] else state["level"]
    kept, rate = 0, level * STEP
    for _ in range(TRIES[bool(state["found"])]):
        row = at(lab, system, int(rate), part="search")
        if row is None:
            break
        if row["sustained"]:
            kept = rate
            if rate <= level:
                break
            rate *= STEP
        elif kept:
            break
        else:
            rate /= STEP
    if kept:
        state["found"].append(int(kept))
        lab.results.setdefault("highest", []).append({"system": system.name, "rate": int(kept)})


def highest_of(lab, system):
    found = lab.memory[NAME][system.name]["found"]
    return int(statistics.median(found)) if found else lab.memory[NAME][system.name]["level"]


def in_curves(lab, systems):
    """Variants of one system are left out, unless they were asked for."""
    return systems if lab.options.peers else [system for system in systems if system.in_curves]


def bars(lab, systems, turn):
    lab.results["sizes"] = {"seconds": seconds_of(lab), "rates": rates_of(lab), "producers": 8}
    systems = in_curves(lab, systems)
    if turn == 0:
        for system in systems:
            curve(lab, system)
    if lab.quick:
        return
    for system in systems if turn else []:
        if system.name in ("outbox", "floor"):
            at(lab, system, 2000)
    last = finalists(lab, systems)
    if turn:
        last = last[:1] + sorted(last[1:], key=lambda one: -highest_of(lab, one))[:1]
    for system in last:
        search(lab, system)
    for system in last:
        rate = highest_of(lab, system)
        at(lab, system, max(1, rate // 2), part="share", share=0.5)
        if turn == 0:
            for share in SHARES:
                if share != 0.5:
                    at(lab, system, max(1, int(share * rate)), part="share", share=share)


def rest(lab, systems, turn):
    """The highest rates held for half a minute, and the calm end of the curve; what is there is taken once more."""
    if lab.quick:
        return
    systems = in_curves(lab, systems)
    for system in finalists(lab, systems) if turn == 0 else []:
        rate = highest_of(lab, system)
        for share in (1.0, 0.95, 0.9, 0.8):
            row = at(lab, system, int(share * rate), seconds=30, part="held")
            if not row or row["sustained"]:
                break
    for rate in LOW if turn == 0 else []:
        for system in systems:
            if system.name in ("outbox", "floor"):
                at(lab, system, rate, seconds=10 if rate == 1 else 5)
    for system in systems if turn else []:
        curve_again(lab, system)


def curve_again(lab, system):
    for rate in rates_of(lab):
        if rate <= lab.memory.get(NAME, {}).get(system.name, {}).get("level", 0):
            at(lab, system, rate)
