"""A collector gone bad, with a collector's real certificate: it answers twice, answers somebody else, answers garbage, declares
16 GiB, or never answers. The command line ends in time with a sentence, and an agent keeps its batches and delivers them to the
good collector."""

import os
import re
import socket
import ssl
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402

RESOURCE_EXHAUSTED, UNAVAILABLE = 8, 14


class Bad:
    """Listens; `answer` makes the raw bytes that follow a request."""

    def __init__(self, tls, answer, port=0):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(tls["cert"], tls["key"])
        self.context.load_verify_locations(tls["ca"])
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.answer, self.requests, self.raw = answer, 0, []
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(raw,), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # what waits in accept ends
        self.listener.close()
        for s in self.raw:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def serve(self, raw):
        try:
            with self.context.wrap_socket(raw, server_side=True) as s:
                self.raw.append(s)
                s.sendall(struct.pack(">BBBBHH", 0, 0x53, 0x50, 0, sp.SP_REP, 0))
                c = sp.Connection.__new__(sp.Connection)
                c.socket = s
                c.exactly(8)
                while True:
                    request = c.receive()
                    self.requests += 1
                    s.sendall(self.answer(request))
        except OSError:
            pass


def call_id(request):
    n = struct.unpack("<H", request[6:8])[0]
    return sp.fields(request[8:8 + n])[3][0]


def message(body):
    return struct.pack(">Q", len(body)) + body


def reply(request, code=UNAVAILABLE, to=None, call=None, payload=b"", wait_ms=0):
    head = sp.field_bytes(1, call or call_id(request)) + sp.field_varint(2, code) + sp.field_bytes(3, b"come again")
    head += sp.field_varint(5, wait_ms)
    return message((to or request[:4]) + struct.pack("<BBH", sp.FRAME_MAGIC, sp.FRAME_VERSION, len(head)) + head + payload)


ANSWERS = [  # what, bytes behind a request, what the command line says of it
    ("answers twice", lambda r: reply(r) * 2, "come again"),
    ("answers a request nobody made, too", lambda r: reply(r, to=b"\x80\0\0\0") + reply(r), "come again"),
    ("answers another call", lambda r: reply(r, call=b"x" * 16), "."),
    ("answers garbage", lambda r: message(r[:4] + b"GET / HTTP/1.0\r\n"), "."),
    ("answers with half a frame", lambda r: message(r[:4] + b"\xb7\x01\xff\xff"), "."),
    ("asks to come again in 49 days", lambda r: reply(r, code=RESOURCE_EXHAUSTED, wait_ms=0xFFFFFFFF), "come again"),
    ("answers nothing to read", lambda r: reply(r, code=0, payload=b"\xff" * 1000), "."),
    ("answers a message without a number", lambda r: message(b"xy"), "."),
    ("declares 16 GiB", lambda r: struct.pack(">Q", 16 << 30), "."),
    ("declares 2^62 bytes", lambda r: struct.pack(">Q", 1 << 62), "."),
    ("never answers", lambda r: b"", "it is connected, but has not answered in time: .* --timeout"),
]


HELLO_REPLY = sp.field_varint(2, 1 << 20) + sp.field_varint(3, 2)


def asked(fleet, what, answer, pattern):
    bad = Bad(fleet.tls("collector"), answer)
    tls, begun = fleet.tls("operator"), time.monotonic()
    code, _, err = fleet.run("procfleet", "hosts", "--collector", "127.0.0.1:%d" % bad.port, "--ca", tls["ca"], "--cert", tls["cert"], "--key",
                             tls["key"], "--timeout", "3s", expect=None, timeout=60)
    took = time.monotonic() - begun
    ensure("it %s: the command line ends after %.1f s with %d: %s" % (what, took, code, err.strip()),
           code not in (0, 2) and code > 0 and took < 20 and re.search(pattern, err))
    ensure("in one sentence", len(err.strip().splitlines()) == 1, err)
    bad.close()


def delivered(fleet, name):
    """An agent that met all of them, again and again, gives what it has to the good collector that stands there at last."""
    fleet.stop(fleet.collector)
    bad_answers = [answer for what, answer, _ in ANSWERS[:-1] if "49 days" not in what]  # 60 s of waiting are too long here
    pushed = []

    def answer(request):
        if b"Ingest/Push" not in request[:200]:
            return reply(request, code=0, payload=HELLO_REPLY)
        pushed.append(request)
        return bad_answers[len(pushed) % len(bad_answers)](request)

    bad = Bad(fleet.tls("collector"), answer, int(fleet.ports["ingest"]))
    agent = fleet.start_agent(name, batch__max_age="500ms")
    fleet.wait_for("the agent to hear each answer", lambda: len(pushed) >= len(bad_answers), 120)
    bad.close()
    check("the agent lives on", agent.poll(), None)
    fleet.start_collector()

    def whole():
        host = fleet.hosts().get(name, {})
        return host if host.get("batches", 0) > 3 and host["gaps"] == 0 else None

    host = fleet.wait_for("its batches, none missing", whole, 90)  # what waited and what is new arrive side by side
    check("none came twice of %d" % host["batches"], host["duplicates"], 0)
    check("the agent ends as told", fleet.stop(agent), 0)


with Fleet() as fleet:
    fleet.start_collector()
    for row in ANSWERS:
        asked(fleet, *row)
    delivered(fleet, "patient")
    check("the collector lives", fleet.collector.poll(), None)
sys.exit(0)
