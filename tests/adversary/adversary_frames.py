"""Peers that belong and misbehave: lengths nobody has, frames that are none, bombs, requests whose answers are never read.
Each is dealt with on its own listener, says why in one log line, and everyone else goes on."""

import os
import re
import socket
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402

INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED = 3, 9, 12
WHO = {"ingest": ("agent-one", sp.SP_REQ), "query": ("operator", sp.SP_REQ), "events": ("subscriber", sp.SP_SUB)}
HELLO, PUSH = "procfleet.v1.Ingest/Hello", "procfleet.v1.Ingest/Push"
INFO = "procfleet.v1.Query/GetServerInfo"


def connect(fleet, listener, timeout=20):
    who, protocol = WHO[listener]
    return sp.Connection("127.0.0.1:" + fleet.ports[listener], protocol, fleet.tls(who), timeout=timeout)


def closed(connection):
    """Whether the other side closes; what it says before is thrown away."""
    try:
        while connection.socket.recv(65536):
            pass
        return True
    except socket.timeout:
        return False
    except OSError:
        return True


def request(frame):
    return struct.pack(">I", 0x80000001) + frame


def header(method, **more):
    h = sp.field_bytes(1, method.encode()) + sp.field_bytes(3, b"0123456789abcdef") + sp.field_varint(4, 5000)
    if "encoding" in more:
        h += sp.field_varint(5, more["encoding"])
    return h


def frame(method, payload=b"", version=sp.FRAME_VERSION, **more):
    h = header(method, **more)
    return struct.pack("<BBH", sp.FRAME_MAGIC, version, len(h)) + h + payload


def ask(connection, message):
    """Sends one request and gives the status code of the reply."""
    connection.send(request(message))
    reply = connection.receive()[4:]
    n = struct.unpack("<H", reply[2:4])[0]
    return sp.fields(reply[4:4 + n]).get(2, [0])[0]


def zstd(declared, blocks):
    """A zstd frame of run-length blocks of 128 KiB zeros: small on the wire, large behind."""
    head = b"\x28\xb5\x2f\xfd" + (b"\xe0" + struct.pack("<Q", declared) if declared is not None else b"\x00\x58")
    size = 128 << 10
    body = b"".join(struct.pack("<I", size << 3 | 1 << 1 | (i == blocks - 1))[:3] + b"\0" for i in range(blocks))
    return head + body


def nested(depth):
    """A message in a message in a message."""
    inner = b""
    for _ in range(depth):
        inner = sp.field_bytes(5, inner)
    return inner


def answered(listener, message):
    """An attempt that gets a status for an answer."""
    def attempt(fleet):
        c = connect(fleet, listener)
        code = ask(c, message)
        c.close()
        return code
    return attempt


def cut(listener, *messages):
    """An attempt whose connection is cut: raw bytes behind the greeting."""
    def attempt(fleet):
        c = connect(fleet, listener)
        for m in messages:
            c.socket.sendall(m)
        result = "cut" if closed(c) else "still connected"
        c.close()
        return result
    return attempt


def dropped(listener, message):
    """An attempt that gets no answer, on a connection that goes on."""
    def attempt(fleet):
        c = connect(fleet, listener, timeout=2)
        c.send(request(message))
        try:
            c.receive()
            result = "answered"
        except socket.timeout:
            result = "no answer"
        c.close()
        return result
    return attempt


def never_reads(listener, message):
    """An attempt that only sends. Its receive buffer stays as the system makes it: one made smaller than what already came in
    makes kernels drop the server's acknowledgements, too, and then nothing more arrives there that it could answer or cut."""
    def attempt(fleet):
        c = connect(fleet, listener, timeout=30)
        body = request(message)
        packed = struct.pack(">Q", len(body)) + body
        try:
            for _ in range(400000):
                c.socket.sendall(packed * 16)
        except socket.timeout:
            return "still connected"
        except OSError:
            return "cut"
        return "still connected"
    return attempt


def nobody_waits_for(fleet, attempt, many):
    """Runs an attempt so many times at once; meanwhile others get their answers, and soon."""
    threads = [threading.Thread(target=attempt, args=(fleet,), daemon=True) for _ in range(many)]
    for t in threads:
        t.start()
    slowest = 0
    while any(t.is_alive() for t in threads):
        c = connect(fleet, "query")
        begun = time.monotonic()
        check_silently(sp.call(c, INFO)[0], 0)
        slowest = max(slowest, time.monotonic() - begun)
        c.close()
    ensure("nobody waits for %d who do not read: at most %.0f ms" % (many, slowest * 1000), slowest < 2)


def check_silently(got, expected):
    if got != expected:
        check("a request meanwhile", got, expected)


def lines(fleet):
    return [line for line in fleet.log("collector.log").splitlines() if " refused " in line]


def everyone_else_goes_on(fleet):
    for listener, (method, code) in {"ingest": (HELLO, INVALID_ARGUMENT), "query": (INFO, 0)}.items():
        c = connect(fleet, listener)
        check("%s still answers" % listener, sp.call(c, method, b"\xff" if code else b"")[0], code)
        c.close()
    connect(fleet, "events").close()


ATTEMPTS = [
    ("16 GiB to ingest", cut("ingest", struct.pack(">Q", 16 << 30)), "cut", "too large"),
    ("2^62 bytes to ingest", cut("ingest", struct.pack(">Q", 1 << 62)), "cut", "too large"),
    ("2 MiB to query", cut("query", struct.pack(">Q", 2 << 20)), "cut", "too large"),
    ("a subscriber that talks", cut("events", struct.pack(">Q", 1 << 62)), "cut", "too large"),
    ("an unknown method", answered("query", frame("procfleet.v1.Query/Nothing")), UNIMPLEMENTED, "unknown method"),
    ("a query to ingest", answered("ingest", frame(INFO)), UNIMPLEMENTED, "unknown method"),
    ("another frame version", answered("ingest", frame(HELLO, version=9)), FAILED_PRECONDITION, "version"),
    ("another frame version to query", answered("query", frame(INFO, version=9)), FAILED_PRECONDITION, "version"),
    ("garbage for a frame to ingest", dropped("ingest", b"GET / HTTP/1.0"), "no answer", "garbage"),
    ("garbage for a frame to query", dropped("query", b"\xb7\x01\xff\xff"), "no answer", "garbage"),
    ("a bomb of 1 GiB", answered("ingest", frame(HELLO, zstd(1 << 30, 8192), encoding=1)), INVALID_ARGUMENT, "payload"),
    ("a bomb that lies", answered("ingest", frame(HELLO, zstd(1000, 8192), encoding=1)), INVALID_ARGUMENT, "payload"),
    ("a bomb that does not say", answered("query", frame(INFO, zstd(None, 400), encoding=1)), INVALID_ARGUMENT,
     "payload"),
    ("requests without reading", never_reads("query", frame(INFO)), "cut", "reply|replies|requests under way"),
]

# Batches are refused by the session, which knows what is wrong with them and says so to their sender.
BATCHES = [
    ("a batch that is a bomb", frame(PUSH, zstd(1 << 30, 8192))),
    ("a batch that is a lying bomb", frame(PUSH, zstd(1000, 4000))),
    ("a batch that is garbage", frame(PUSH, b"garbage")),
    ("an empty batch", frame(PUSH)),
    ("a batch of empty columns", frame(PUSH, sp.zstd_stored(sp.field_bytes(13, b"") * 480000))),
    ("a batch of empty events", frame(PUSH, sp.zstd_stored(sp.field_bytes(15, b"") * 480000))),
    ("a batch of empty processes", frame(PUSH, sp.zstd_stored(sp.field_bytes(14, b"") * 480000))),
    ("a batch of packed ticks", frame(PUSH, sp.zstd_stored(sp.field_bytes(10, b"\0" * 960000)))),
    ("a batch of unpacked ticks", frame(PUSH, sp.zstd_stored(sp.field_varint(10, 0) * 480000))),
    ("a batch of unknown fields", frame(PUSH, sp.zstd_stored(sp.field_varint(1000, 0) * 320000))),
    ("a batch of groups in each other", frame(PUSH, sp.zstd_stored(b"\x6b" * 100000 + b"\x6c" * 100000))),
    ("a batch of messages in each other", frame(PUSH, sp.zstd_stored(nested(10000)))),
    ("events in each other", frame(PUSH, sp.zstd_stored(sp.field_bytes(15, nested(10000))))),
]

with Fleet() as fleet:
    fleet.start_collector()
    fleet.issue("agent", "agent-one")
    everyone_else_goes_on(fleet)
    for what, attempt, outcome, pattern in ATTEMPTS:
        before = len(lines(fleet))
        check(what, attempt(fleet), outcome)
        fleet.wait_for("a log line about %s" % what, lambda: len(lines(fleet)) > before, 10)
        new = lines(fleet)[before:]
        check("%s leaves one line" % what, len(new), 1)
        ensure("and it says why", re.search(pattern, new[0]), new[0])
    everyone_else_goes_on(fleet)
    nobody_waits_for(fleet, never_reads("query", frame(INFO)), 8)
    for what, message in BATCHES:
        check(what, answered("ingest", message)(fleet), INVALID_ARGUMENT)
    everyone_else_goes_on(fleet)
    check("the collector lives", fleet.collector.poll(), None)
    with open("/proc/%d/status" % fleet.collector.pid) as status:
        resident = int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1)) >> 10
    print("the collector's memory peaked at %d MiB" % resident)
    check("the collector ends as told", fleet.stop(fleet.collector), 0)
sys.exit(0)
