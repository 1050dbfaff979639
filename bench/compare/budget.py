"""The minutes of a run, and how long each sample takes: what would not end in time is not begun.

How long they took last time is kept beside the peers, outside the repository."""
import json
import os
import time

from compare import cache

USUAL = 12.0   # seconds of a sample that nobody has taken yet
WAITING = 0.1  # of the time, for a quiet machine: in front of samples, and for those that are taken again


class Budget:
    def __init__(self, minutes, quick):
        self.end = time.monotonic() + 60 * minutes
        self.seconds = 60 * minutes
        self.path = None if quick else os.path.join(cache.FOLDER, "timings.json")
        self.waited = 0.0
        self.known = {}
        if self.path and os.path.exists(self.path):
            with open(self.path) as file:
                self.known = json.load(file)

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def used(self):
        """The part that is gone."""
        return 1 - self.left() / self.seconds

    def fits(self, key):
        return self.known.get(key, USUAL) <= self.left()

    def patience(self):
        """Seconds that may still be spent on noise."""
        return max(0.0, min(WAITING * self.seconds - self.waited, self.left() / 10))

    def note(self, key, seconds):
        self.known[key] = round(seconds, 1)

    def save(self):
        if self.path:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path + ".new", "w") as file:
                json.dump(self.known, file, indent=0, sort_keys=True)
            os.rename(self.path + ".new", self.path)

    def clock(self):
        return "%2d:%02d left" % divmod(int(self.left()), 60)
