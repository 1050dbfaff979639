"""The programs of a test under a watcher: tests/prove/valgrind asks for it with OUTBOX_TEST_UNDER, the words to put before a
program; `{test}` in them becomes the name of the test. A watched program is many times slower, so deadlines are longer then:
a test that measures time itself multiplies its bound by PATIENCE.
"""
import os
import re

UNDER = os.environ.get("OUTBOX_TEST_UNDER", "").split()
PATIENCE = 10 if UNDER else 1


def watched(*words):
    """The command line, with the watcher before it when there is one."""
    path, _, test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].partition("::")
    test = re.sub(r"[^\w.-]+", "-", os.path.basename(path) + "-" + test)[:120]
    return [*(word.replace("{test}", test) for word in UNDER), *words]
