"""What came out of a job: reads TAP and JUnit XML into a list of results."""
import re
import signal
import xml.etree.ElementTree

PASSED, FAILED, SKIPPED, NOT_APPLICABLE = "passed", "failed", "skipped", "not applicable"

RESULT_LINE = re.compile(r"^(not )?ok\b(?: +\d+)?(?: +- +| +)?(.*)$")
PLAN_LINE = re.compile(r"^1\.\.(\d+)\s*(?:#\s*SKIP\s*(.*))?$", re.IGNORECASE)
DIRECTIVE = re.compile(r"#\s*SKIP\b[: ]*(.*)$", re.IGNORECASE)


class Result:
    """One test: its job and name, how it went, how long it took, why it was skipped, what it said."""

    def __init__(self, job, name, status, seconds=0.0, reason="", output=""):
        self.job = job
        self.name = name
        self.status = status
        self.seconds = seconds
        self.reason = reason
        self.output = output

    @property
    def title(self):
        return "%s: %s" % (self.job, self.name) if self.name else self.job


def skipped(job, name, seconds, reason):
    """A skip says that it could not run here; "not applicable" says that there is nothing to run."""
    match = re.match(r"not applicable\b[: ]*(.*)", reason, re.IGNORECASE)
    if match:
        return Result(job, name, NOT_APPLICABLE, seconds, match.group(1) or "no reason given")
    return Result(job, name, SKIPPED, seconds, reason or "no reason given")


def exit_text(code):
    if code < 0:
        try:
            return "killed by %s" % signal.Signals(-code).name
        except ValueError:
            return "killed by signal %d" % -code
    return "exit status %d" % code


class TapReader:
    """Takes the lines of a test program as they come, with the time they came at. cmocka prints the line of a test
    when it has ended, the reasons of a failure partly before and partly after it, and a skip as "not ok # SKIP name":
    there the reason is a "# SKIP ..." line printed before."""

    def __init__(self, job, now):
        self.job = job
        self.results = []
        self.planned = 0
        self.last_time = now
        self.block = []  # lines since the last result
        self.open_failure = False  # the last result failed, and may be told more about

    def line(self, text, now):
        """Returns the result that this line completes, if it does."""
        plan = PLAN_LINE.match(text)
        if plan:
            self.planned += int(plan.group(1))
            if plan.group(2) is not None and plan.group(1) == "0":
                self.results.append(skipped(self.job, "", 0, plan.group(2)))
                return self.results[-1]
            return None
        match = RESULT_LINE.match(text)
        if not match:
            self.comment(text)
            return None
        result = self.read_result(match, now - self.last_time)
        self.results.append(result)
        self.last_time = now
        self.block = []
        self.open_failure = result.status == FAILED
        return result

    def comment(self, text):
        """Comments right behind a failed test belong to it, with cmocka up to "error: Failure!"; all else belongs to
        the test that runs."""
        if self.open_failure and text.startswith("#"):
            self.results[-1].output += text + "\n"
            self.open_failure = not text.endswith("error: Failure!")
        else:
            self.open_failure = False
            self.block.append(text)

    def read_result(self, match, seconds):
        failed, rest = match.group(1), match.group(2)
        directive = DIRECTIVE.search(rest)
        if directive:
            name = rest[:directive.start()].strip()
            reason = directive.group(1).strip()
            if not name:  # cmocka's way round
                name, reason = reason, self.reason_before()
            return skipped(self.job, name, seconds, reason)
        output = "".join(line + "\n" for line in self.block)
        return Result(self.job, rest, FAILED if failed else PASSED, seconds, output=output if failed else "")

    def reason_before(self):
        for line in reversed(self.block):
            directive = DIRECTIVE.match(line)
            if directive:
                return directive.group(1).strip()
        return ""

    def finish(self, code, timed_out, now):
        """The program has ended: a crash, a time-out, a leak found at exit and silence all count as failures."""
        failures = [result for result in self.results if result.status == FAILED]
        missing = self.planned - len(self.results)
        if code == 77 and not self.results:
            self.results.append(skipped(self.job, "", 0, " ".join(self.block[-1:])))
        elif timed_out:
            self.fail(now, "timed out; %d tests did not end" % max(missing, 0))
        elif missing > 0:
            self.fail(now, "ended early, %s; %d tests did not end" % (exit_text(code), missing))
        elif code != 0 and not failures:
            self.fail(now, "no test failed, but %s" % exit_text(code))
        elif not self.results:
            self.fail(now, "it printed no test result")
        return self.results

    def fail(self, now, why):
        output = "".join(line + "\n" for line in self.block)
        self.results.append(Result(self.job, why, FAILED, now - self.last_time, output=output))


def read_junit(job, path, code, output):
    """The results of a pytest run. Its console output is shown when something failed outside of a test. What a test gives
    to record_property("show", text) is shown at the end also when it passes: tables."""
    try:
        cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError):
        return [Result(job, "pytest %s" % exit_text(code), FAILED, output=output)]
    results = []
    for case in cases:
        name, seconds = case.get("name", ""), float(case.get("time", 0))
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            text = "\n".join((child.text or child.get("message") or "") for child in bad)
            text += "".join("\n" + (child.text or "") for child in case if child.tag in ("system-out", "system-err"))
            results.append(Result(job, name, FAILED, seconds, output=text + "\n"))
        elif skip is not None:
            reason = re.sub(r"^Skipped: ", "", skip.get("message") or "")
            results.append(skipped(job, name, seconds, reason))
        else:
            shown = "".join(item.get("value", "") for item in case.iter("property") if item.get("name") == "show")
            results.append(Result(job, name, PASSED, seconds, output=shown))
    if code != 0 and not any(result.status == FAILED for result in results):
        results.append(Result(job, "pytest %s" % exit_text(code), FAILED, output=output))
    return results
