"""An agent written from PROTOCOL.md alone: its clocks, its boot and its batches are what the test says."""

import os
import time
import uuid

import sp

S = 10**9


class Agent:
    def __init__(self, fleet, name, host, boot=None, stream=None):
        self.fleet, self.name, self.host = fleet, name, host
        self.boot, self.stream = boot or os.urandom(16), stream or 4711
        self.ahead = 0  # of the wall clock
        self.last = (0, 0)
        self.connect()

    def connect(self):
        self.connection = sp.Connection("127.0.0.1:" + self.fleet.ports["ingest"], sp.SP_REQ, self.fleet.tls(self.name))

    def clocks(self):
        mono = time.monotonic_ns()
        return time.time_ns() + self.ahead, mono

    def exchange(self, method, body, first):
        """A Hello or Heartbeat; tells what the one before took. Gives the code and the detail's key."""
        wall, mono = self.clocks()
        told = sp.field_fixed64(first, wall) + sp.field_fixed64(first + 1, mono)
        if self.last[1]:
            told += sp.field_fixed64(first + 2, self.last[0]) + sp.field_fixed64(first + 3, self.last[1])
        head, _ = sp.call_header(self.connection, "procfleet.v1.Ingest/" + method, body + told)
        self.last = (mono, time.monotonic_ns() - mono)
        details = [sp.fields(d)[1][0].decode() for d in head.get(4, [])]
        return head.get(2, [0])[0], details

    def hello(self):
        body = (sp.field_bytes(1, self.host) + sp.field_bytes(2, self.boot) + sp.field_fixed64(3, self.stream) +
                sp.field_bytes(6, b"proc"))
        return self.exchange("Hello", body, 9)

    def heartbeat(self):
        return self.exchange("Heartbeat", sp.field_fixed64(1, self.stream), 3)

    def batch(self, seq, age=0.5):
        """Ten ticks that end some seconds ago."""
        wall, mono = self.clocks()
        ticks = [(wall - int((age + 9 - i) * S), mono - int((age + 9 - i) * S)) for i in range(10)]
        return sp.batch(self.host, self.boot, self.stream, seq, ticks)

    def push(self, data):
        head, payload = sp.call_header(self.connection, "procfleet.v1.Ingest/Push", data, encoding=1)
        reply = sp.fields(payload)
        return head.get(2, [0])[0], bool(reply.get(1, [0])[0]), head.get(3, [b""])[0].decode()


def enrolled(fleet, name):
    """Issues an agent's certificate and gives its host id."""
    host = uuid.uuid4()
    fleet.issue("agent", name, "pki", None, "--host", str(host))
    return host.bytes
