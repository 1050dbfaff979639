"""A collector of traces for tests: OTLP/HTTP on loopback, made of a Receiver, so that it can misbehave. It reads the protobuf by
the field numbers of opentelemetry-proto, independent of the code under test.

    with Collector() as collector:
        relay = Relay(..., traces={"endpoint": collector.endpoint})
        spans = collector.spans()       # dicts: name, trace, id, parent, kind, attributes, events, links, status ...
"""
import struct

from support.receiver import Receiver, status

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


def fields(data):
    """(number, value) of a message, in order; a value is an int or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        tag = varint()
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value = varint()
        elif wire == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        else:
            assert wire == 2, wire
            length = varint()
            value, at = data[at:at + length], at + length
            assert len(value) == length
        yield number, value


def one(data):
    return dict(fields(data))


def attributes(items):
    found = {}
    for item in items:
        pair = one(item)
        (number, value), = fields(pair[2])
        key = pair[1].decode()
        assert key not in found, key
        found[key] = value.decode() if number == 1 else value - (1 << 64) * (value >> 63)
    return found


def every(data, wanted):
    return [value for number, value in fields(data) if number == wanted]


def read_span(data):
    span = one(data)
    state = one(span.get(15, b""))
    return {
        "trace": span[1].hex(), "id": span[2].hex(), "parent": span[4].hex() if 4 in span else None,
        "state": span.get(3, b"").decode(), "name": span[5].decode(), "kind": KINDS[span[6]], "begin": span[7], "end": span[8],
        "attributes": attributes(every(data, 9)), "flags": span[16],
        "events": [{"name": one(event)[2].decode(), "at": one(event)[1], "attributes": attributes(every(event, 3))}
                   for event in every(data, 11)],
        "links": [(one(link)[1].hex(), one(link)[2].hex()) for link in every(data, 13)],
        "status": {0: "unset", 1: "ok", 2: "error"}[state.get(3, 0)], "message": state.get(2, b"").decode(),
    }


def read_request(body):
    """[(resource's attributes, span)]"""
    found = []
    for resource_spans in every(body, 1):
        resource = attributes(every(one(resource_spans)[1], 1))
        for scope_spans in every(resource_spans, 2):
            assert one(one(scope_spans)[1])[1] == b"outbox"
            found += [(resource, read_span(span)) for span in every(scope_spans, 2)]
    return found


class Collector(Receiver):
    def __init__(self, behave=None, **options):
        super().__init__(behave or status(200, {"Content-Type": "application/x-protobuf"}), **options)

    @property
    def endpoint(self):
        return self.url("").rstrip("/")

    def spans(self, requests=None):
        return [span for request in list(self.requests if requests is None else requests)
                for _, span in read_request(request.body)]
