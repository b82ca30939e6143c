"""A receiver of OTLP over HTTP that decodes by its own small decoder and its own numbers, and fails as it is told to."""

import http.server
import os
import re
import struct
import threading

# message -> {field: (name, type)}: the published schema's numbers; "Name" is a message, "*" repeated.
SCHEMA = {
    "ExportMetricsServiceRequest": {1: ("resource_metrics", "*ResourceMetrics")},
    "ResourceMetrics": {1: ("resource", "Resource"), 2: ("scope_metrics", "*ScopeMetrics")},
    "ScopeMetrics": {1: ("scope", "InstrumentationScope"), 2: ("metrics", "*Metric")},
    "Metric": {1: ("name", "string"), 2: ("description", "string"), 3: ("unit", "string"), 5: ("gauge", "Gauge"), 7: ("sum", "Sum")},
    "Gauge": {1: ("data_points", "*NumberDataPoint")},
    "Sum": {1: ("data_points", "*NumberDataPoint"), 2: ("aggregation_temporality", "varint"), 3: ("is_monotonic", "varint")},
    "NumberDataPoint": {2: ("start_time_unix_nano", "fixed64"), 3: ("time_unix_nano", "fixed64"), 6: ("as_int", "sfixed64"),
                        7: ("attributes", "*KeyValue")},
    "ExportLogsServiceRequest": {1: ("resource_logs", "*ResourceLogs")},
    "ResourceLogs": {1: ("resource", "Resource"), 2: ("scope_logs", "*ScopeLogs")},
    "ScopeLogs": {1: ("scope", "InstrumentationScope"), 2: ("log_records", "*LogRecord")},
    "LogRecord": {1: ("time_unix_nano", "fixed64"), 2: ("severity_number", "varint"), 3: ("severity_text", "string"),
                  5: ("body", "AnyValue"), 6: ("attributes", "*KeyValue"), 11: ("observed_time_unix_nano", "fixed64"),
                  12: ("event_name", "string")},
    "Resource": {1: ("attributes", "*KeyValue")},
    "InstrumentationScope": {1: ("name", "string"), 2: ("version", "string")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "string"), 2: ("bool_value", "varint"), 3: ("int_value", "int64"), 4: ("double_value", "fixed64")},
}
WIRE = {"varint": 0, "int64": 0, "fixed64": 1, "sfixed64": 1}


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def decode(message, data):
    out, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        field, wire = tag >> 3, tag & 7
        name, kind = SCHEMA[message][field]  # a field that the schema does not have fails the test
        repeated, kind = kind.startswith("*"), kind.lstrip("*")
        assert wire == WIRE.get(kind, 2), (message, field, wire)
        if wire == 0:
            value, at = varint(data, at)
            value = value - (1 << 64) if kind == "int64" and value >> 63 else value
        elif wire == 1:
            value = struct.unpack_from("<q" if kind == "sfixed64" else "<Q", data, at)[0]
            at += 8
        else:
            n, at = varint(data, at)
            assert at + n <= len(data), (message, field)
            value, at = data[at:at + n], at + n
            value = value.decode("utf-8") if kind == "string" else decode(kind, value)
        if repeated:
            out.setdefault(name, []).append(value)
        else:
            out[name] = value
    return out


def attributes(message):
    return {a["key"]: next(iter(a["value"].values())) for a in message.get("attributes", [])}


def same_as(path):
    """What differs between the .proto of the tree and the numbers above."""
    text = re.sub(r"//.*", "", open(path).read())
    found = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.S):
        found[name] = {int(n): (field, "*" + kind if repeated else kind)
                       for repeated, kind, field, n in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)}
    wrong = []
    for message, fields in SCHEMA.items():
        for number, (field, kind) in fields.items():
            got = found.get(message, {}).get(number, (None, ""))
            if got[0] != field or (kind.lstrip("*")[0].isupper() and got[1] != kind):
                wrong.append((message, number, field, got))
    return wrong


class Receiver:
    def __init__(self, tls=None, port=0):
        self.lock = threading.Lock()
        self.records, self.points = [], []  # as (host, attributes, record), (host, metric, attributes, point)
        self.requests, self.headers = 0, []
        self.mode = "ok"
        self.broken = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.post(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that was killed
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, data):
        if path == "/v1/logs":
            for resource in decode("ExportLogsServiceRequest", data)["resource_logs"]:
                host = attributes(resource["resource"])["host.name"]
                for scope in resource["scope_logs"]:
                    self.records += [(host, attributes(r), r) for r in scope["log_records"]]
        elif path == "/v1/metrics":
            for resource in decode("ExportMetricsServiceRequest", data)["resource_metrics"]:
                host = attributes(resource["resource"])["host.name"]
                for scope in resource["scope_metrics"]:
                    for m in scope["metrics"]:
                        kind = "sum" if "sum" in m else "gauge"
                        self.points += [(host, m["name"], kind, m["unit"], attributes(p), p) for p in m[kind]["data_points"]]
        else:
            raise AssertionError("nothing is at " + path)

    def post(self, handler):
        data = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            self.requests += 1
            mode = self.mode
            self.headers.append(dict(handler.headers))
            if mode in ("ok", "lost reply", "partial"):
                try:
                    assert handler.headers["Content-Type"] == "application/x-protobuf"
                    self.take(handler.path, data)
                except Exception as e:
                    self.broken.append(repr(e))
        if mode in ("lost reply", "reset"):
            handler.close_connection = True
            return
        status, body, more = {
            "ok": (200, b"", {}),
            "partial": (200, b"\x0a\x0c\x08\x02\x12\x08too much", {}),
            "busy": (429, b"", {"Retry-After": "1"}),
            "down": (503, b"", {}),
            "error": (500, b"<html>", {}),
            "refuse": (400, b"\x08\x03\x12\x07no good", {}),
            "locked": (401, b"", {}),
            "moved": (302, b"", {"Location": "http://127.0.0.1:1/"}),
            "page": (200, b"<html>log in", {"Content-Type": "text/html; charset=utf-8"}),
            "endless": (500, b"x" * (1 << 20), {}),
        }[mode]
        handler.send_response(status)
        for name, value in more.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


if __name__ == "__main__":
    print(same_as(os.path.join(os.path.dirname(__file__), "..", "..", "collector", "forward", "otlp.proto")))
