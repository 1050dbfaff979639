"""The JSON of --json, from def/json.def: a JSON Schema for each document, and the page that describes them all.

tools/gen-docs writes what this makes. The head of def/json.def says what a row looks like.
"""
import json

PLAIN = {
    "text": {"type": "string"}, "uuid": {"type": "string", "format": "uuid"},
    "time": {"type": "string", "format": "date-time"}, "integer": {"type": "integer", "minimum": 0},
    "number": {"type": "number", "minimum": 0}, "bool": {"type": "boolean"}, "any": {},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
}
HEAD = """\
With `--json` a command prints one JSON document on stdout, or one a line where there are many (JSON Lines). What it has to
say on stderr is JSON too, a line each: [notes](#note), and one [error](#error) when it failed. `--quiet` leaves the notes
out. The exit status is that of [errors.md](errors.md). A command that answers a question with no (`validate`, `doctor`,
`migrate --status`) has not failed: its document is on stdout, and its exit status is not 0.

`help`, `--help`, `migrate --print` and `config --sample` print text, and `run` nothing but its log, whose form is an
option.

**A promise.** Within a major version a field may be added, and so may a word to those of a field; none is removed, renamed
or given another type. So a reader ignores what it does not know. Fields are always there, null where they have no value,
but for those marked optional. Times are RFC 3339 in UTC, with microseconds. Text from the database is as it was stored.

Each has a JSON Schema: [docs/json](json). `outbox status --json | outbox validate --json-schema
docs/json/status.schema.json -` checks a document.

| command | document |
|---|---|
"""


class Documents:
    """What def/json.def says, by the names of documents, in its order."""

    def __init__(self, documents, fields):
        self.documents = {name: (command, form, what) for name, command, form, what in documents}
        self.rows = {name: [] for name in self.documents}
        for name, *row in fields:
            self.rows[name].append(row)

    def printed(self):
        """Names of those that a command prints."""
        return [name for name, (_, form, _) in self.documents.items() if form != "PART"]

    def fields(self, name):
        """(name, type, may be missing, what it is), with those of the parts that are taken over as a whole."""
        for field, type_, what in self.rows[name]:
            if field == "*":
                yield from self.fields(type_)
            else:
                yield field, type_.removeprefix("optional "), type_.startswith("optional "), what

    # ---- JSON Schema ----

    def _type(self, type_, parts):
        if type_.endswith("?"):
            known = self._type(type_[:-1].strip(), parts)
            if "enum" in known:
                return {"enum": known["enum"] + [None]}
            return {**known, "type": [known["type"], "null"]}
        if type_.startswith("list of: "):
            return {"type": "array", "items": self._type(type_[9:], parts)}
        if type_.startswith("one of: "):
            return {"enum": type_[8:].split()}
        if type_ in PLAIN:
            return dict(PLAIN[type_])
        if type_ not in parts:
            parts[type_] = None  # its place, before those that it needs itself
            parts[type_] = self._object(type_, parts)
        return {"$ref": "#/$defs/" + type_}

    def _object(self, name, parts):
        fields = list(self.fields(name))
        return {
            "type": "object",
            "required": [field for field, _, optional, _ in fields if not optional],
            "properties": {field: {"description": what, **self._type(type_, parts)} if what else self._type(type_, parts)
                           for field, type_, _, what in fields},
        }

    def schema(self, name):
        command, _, what = self.documents[name]
        parts = {}
        body = self._object(name, parts)
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "outbox " + command, "description": what}
        return {**head, **body, **({"$defs": parts} if parts else {})}

    def schema_text(self, name):
        return json.dumps(self.schema(name), indent=1, ensure_ascii=False) + "\n"

    # ---- the page ----

    def _words(self, type_):
        if type_.endswith("?"):
            return self._words(type_[:-1].strip()) + " or null"
        if type_.startswith("list of: "):
            return "list of " + self._words(type_[9:])
        if type_.startswith("one of: "):
            return " ".join("`%s`" % word for word in type_[8:].split())
        return type_ if type_ in PLAIN else "[%s](#%s)" % (type_, type_)

    def _table(self, name):
        yield from ["| field | type | |", "|---|---|---|"]
        for field, type_, optional, what in self.fields(name):
            yield "| `%s` | %s%s | %s |" % (field, self._words(type_), "; optional" if optional else "", what.replace("|", "\\|"))

    def page(self, head):
        out = [head + HEAD.rstrip("\n")]
        out += ["| `outbox %s` | [%s](#%s) |" % (self.documents[name][0], name, name) for name in self.printed()]
        for name in self.printed():
            command, form, what = self.documents[name]
            link = "[%s.schema.json](json/%s.schema.json)" % (name, name)
            many = " One a line." if form == "LINES" else ""
            out += ["", "## %s" % name, "", "`outbox %s`: %s%s %s" % (command, what, many, link), "", *self._table(name)]
        out += ["", "## Parts", "", "What several documents hold, or hold many of."]
        for name in self._linked():
            what = self.documents[name][2]
            out += ["", "### %s" % name, "", what[0].upper() + what[1:] + ".", "", *self._table(name)]
        return "\n".join(out) + "\n"

    def _linked(self):
        """The parts that are linked to; the others stand in full where they are taken over."""
        parts = {}
        for name in self.printed():
            self._object(name, parts)
        return [name for name in self.documents if name in parts]
