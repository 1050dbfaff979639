"""From COMMIT to the handler, over the rate of producers: a curve for each system, and the highest rate it sustains."""
from compare import load

NAME, TITLE, SHARE = "latency", "latency over load: one business row and one message a transaction", 0.36
RATES = [100, 500, 1000, 2000, 3000, 5000, 8000, 12000]
SHARES = [0.1, 0.5, 0.9]  # of the highest sustained rate
LEAST, MOST = 3.0, 30.0   # seconds of a sample


def seconds_of(lab, systems, rates):
    """So that a round fits: slow systems end their curve early, about six rates are measured of each."""
    if lab.options.seconds or lab.quick:
        return lab.options.seconds or 1.5
    return max(LEAST, min(MOST, lab.seconds_left() / (len(systems) * min(6, len(rates))) - 4))


def curve(lab, system, rates, seconds):
    """Up to the first rate that it does not sustain; returns the highest that it does."""
    highest = 0
    for rate in rates:
        row = lab.take(system, "%d/s" % rate, lambda: load.at_rate(lab, system, rate, seconds), part="curve")
        if not row or not row["sustained"]:
            break
        highest = rate
    return highest


def run(lab, systems):
    """Variants of one system are left out, unless they were asked for."""
    systems = systems if lab.options.peers else [system for system in systems if system.in_curves]
    rates = [int(word) for word in lab.options.rates.split(",") if word] or ([100, 500] if lab.quick else RATES)
    seconds = seconds_of(lab, systems, rates)
    lab.results["sizes"] = {"seconds": seconds, "rates": rates, "producers": 8}
    for _ in lab.rounds(3):
        highest = {system.name: curve(lab, system, rates, seconds) for system in systems}
        for system in systems if lab.seconds_left() > 0 and not lab.quick else []:
            shares(lab, system, highest[system.name], seconds)


def shares(lab, system, highest, seconds):
    """At a tenth, half and nine tenths of it. Where there is no time for them, the page reads them from the curve."""
    for share in SHARES if highest else []:
        lab.take(system, "%d %% of %d/s" % (100 * share, highest),
                 lambda: load.at_rate(lab, system, max(1, int(share * highest)), seconds), part="share", share=share,
                 highest=highest)
