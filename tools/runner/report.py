"""Tells on the terminal what happens: one moving line, failures in full, and the closing lines."""
import os
import sys
import threading
import time

from .results import FAILED, NOT_APPLICABLE, PASSED, SKIPPED

SLOWEST = 10


class Report:
    def __init__(self, out=sys.stdout):
        self.out = out
        self.moving = out.isatty()
        self.lock = threading.Lock()
        self.results = []
        self.running = {}  # name: start
        self.jobs_done = self.jobs_known = 0

    def count(self, status):
        return sum(result.status == status for result in self.results)

    # ---- while it runs: called from any thread -------------------------------------------------------------------

    def job_begins(self, job):
        with self.lock:
            self.running[job.name] = time.monotonic()
            self.draw()

    def result(self, result):
        with self.lock:
            self.results.append(result)
            if result.status == FAILED:
                self.erase()
                print("\nFAILED %s (%.2f s)" % (result.title, result.seconds), file=self.out)
                print("".join("    " + line + "\n" for line in result.output.splitlines()), file=self.out, flush=True)
            self.draw()

    def job_ends(self, job):
        with self.lock:
            seconds = time.monotonic() - self.running.pop(job.name)
            self.jobs_done += 1
            mine = [result for result in self.results if result.job == job.name]
            if not self.moving:
                failed = any(result.status == FAILED for result in mine)
                print("%-6s %-44s %4d %s %7.2f s" % ("FAILED" if failed else "ok", job.name, len(mine),
                                                    "test " if len(mine) == 1 else "tests", seconds),
                      file=self.out, flush=True)
            self.draw()

    def erase(self):
        if self.moving:
            print("\r\033[K", end="", file=self.out)

    def draw(self):
        if not self.moving:
            return
        text = "[%d/%d] %d passed, %d failed · %s" % (
            self.jobs_done, self.jobs_known, self.count(PASSED), self.count(FAILED), ", ".join(self.running))
        width = os.get_terminal_size(self.out.fileno()).columns or 80
        print("\r\033[K" + text[:width - 1], end="", file=self.out, flush=True)

    # ---- at the end ----------------------------------------------------------------------------------------------

    def list_reasons(self, status, heading):
        chosen = [result for result in self.results if result.status == status]
        if not chosen:
            return
        print("\n%d %s:" % (len(chosen), heading), file=self.out)
        by_reason = {}
        for result in chosen:
            by_reason.setdefault(result.reason, []).append(result.title)
        for reason, titles in by_reason.items():
            print("  %s" % reason, file=self.out)
            for title in titles:
                print("    %s" % title, file=self.out)

    def closing_line(self):
        return "%d passed, %d failed, %d skipped" % (self.count(PASSED), self.count(FAILED), self.count(SKIPPED))

    def close(self):
        self.erase()
        slowest = sorted(self.results, key=lambda result: -result.seconds)[:SLOWEST]
        print("\nslowest:", file=self.out)
        for result in slowest:
            print("  %7.2f s  %s" % (result.seconds, result.title), file=self.out)
        for result in self.results:
            if result.status == PASSED and result.output:
                print("\n%s:\n%s" % (result.title, result.output.rstrip("\n")), file=self.out)
        self.list_reasons(NOT_APPLICABLE, "not applicable")
        self.list_reasons(SKIPPED, "skipped")
        failures = [result for result in self.results if result.status == FAILED]
        if failures:
            print("\n%d failed:" % len(failures), file=self.out)
            for result in failures:
                print("  %s" % result.title, file=self.out)
        print("\n" + self.closing_line(), file=self.out, flush=True)
