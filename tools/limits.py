"""The rows of def/limits.def, for tools/embed-sql and tools/gen-docs."""
import collections
import datetime
import os
import re
import sys

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "def", "limits.def")
ROW = re.compile(r'^LIMIT\((\w+), (\d+), (\d+), (BYTES|CHARACTERS|COUNT|TIME), "([^"\\]*)"\)$', re.MULTILINE)
UNITS = [("days", 86400000000), ("h", 3600000000), ("min", 60000000), ("s", 1000000), ("ms", 1000), ("us", 1)]
PLACEHOLDER = re.compile(r"@(\w+?)_(min|max|min_s|max_s|min_at|max_at|range)@")

Limit = collections.namedtuple("Limit", "name least most unit what")


def read(path=PATH):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = [Limit(name, int(least), int(most), unit, what) for name, least, most, unit, what in ROW.findall(text)]
    if len(found) != len(re.findall(r"^LIMIT\(", text, re.MULTILINE)):
        sys.exit("%s: a row is not in the form that its head describes" % path)
    return {limit.name: limit for limit in found}


def time(us):
    """In the largest unit that leaves a whole number, as src/base/limits.c does it."""
    for name, size in UNITS:
        if us % size == 0 and us >= size * (2 if name == "days" else 1):
            return "%d %s" % (us // size, name)
    return "0 s"


def range_of(limit, number=str):
    if limit.unit == "TIME":
        return "%s to %s" % (time(limit.least), time(limit.most)) if limit.least else "up to %s" % time(limit.most)
    unit = {"BYTES": " bytes", "CHARACTERS": " characters", "COUNT": ""}[limit.unit]
    return "%s to %s%s" % (number(limit.least), number(limit.most), unit)


def fill(text, limits):
    """The text with the numbers and words that its placeholders stand for; KeyError for a limit that is not there."""
    def value(match):
        limit, what = limits[match.group(1)], match.group(2)
        if what == "range":
            return range_of(limit)
        number = limit.least if what.startswith("min") else limit.most
        if what.endswith("_at"):
            return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=number)) + "+00"
        if not what.endswith("_s"):
            return str(number)
        return ("%.6f" % (number / 1000000)).rstrip("0").rstrip(".")
    return PLACEHOLDER.sub(value, text)
