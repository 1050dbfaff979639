"""Measurements of bench/run that the bars need: each writes its own file, as there."""
import traceback

from harness import report
from measure import enqueue_bare, held_xmin, relay_kafka, relay_memory, takers

ROUNDS = {enqueue_bare: 5, takers: 5, held_xmin: 5, relay_kafka: 5, relay_memory: 1}  # within one call
USUAL = {enqueue_bare: 20, takers: 150, held_xmin: 60, relay_kafka: 90, relay_memory: 60}  # seconds, until they are known
NAMES = [module.NAME for module in ROUNDS]


def run(lab, only):
    """Each once, with all of its rounds. One that fails does not keep the others from being measured."""
    for module, rounds in ROUNDS.items():
        key = "own/" + module.NAME
        if only and module.NAME not in only:
            continue
        if not lab.quick and lab.budget.known.get(key, USUAL[module]) > lab.budget.left():
            lab.log("%s  %s: no time left" % (lab.budget.clock(), module.NAME))
            continue
        one(lab, module, key, rounds)


def one(lab, module, key, rounds):
    lab.log("\n%s  == %s: %s" % (lab.budget.clock(), module.NAME, module.TITLE))
    left = lab.budget.left()
    lab.bench.asked_rounds = lab.options.rounds or (1 if lab.quick else rounds)
    result = report.Report(module.NAME, module.TITLE, lab.bench)
    try:
        module.measure(lab.bench, result)
    except Exception as problem:
        traceback.print_exc()
        lab.log("%s could not be measured" % module.NAME)
        result.data["failed"] = str(problem)[:500]
    finally:
        lab.bench.sell_off()
    result.finish(lab.options.folder)
    lab.budget.note(key, left - lab.budget.left())
