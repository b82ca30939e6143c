"""Thousands of silent connections hold what they can get of the real collector, and come back when they are sent away: a
hundred honest agents (bench_fleet: the agent's own uplink, TLS and batches) come in all the same and are served, and memory and
descriptors stay where they are.

A third of the silent ones never sends a byte, a third stops in the middle of its first message, a third gets the server's answer
and stops there, which costs it the most. Besides, stolen certificates hold as many connections as one certificate may, and say
nothing more either. $SILENT says how many there are without a certificate, $SECONDS how long the agents are measured.
"""

import json
import os
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

import sp  # noqa: E402
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402

SILENT = int(os.environ.get("SILENT", "5000"))
AGENTS = 100
STOLEN, OF_EACH = 5, 64
SECONDS = int(os.environ.get("SECONDS", "10"))
BACK_PER_SECOND = 800  # silent ones that come again; what makes them costs the agents' processors, too
SANITIZED = os.environ.get("PROCFLEET_SANITIZED") == "1"
PLACES = 1024 + 512 + 1  # docs/limits.md: for those who have not shown who they are, and while room is made


def client_hello():
    """What a TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="procfleet-collector")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Silent(threading.Thread):
    """Keeps so many connections open, each said no more on than its kind does."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.hello = client_hello()
        self.selector = selectors.DefaultSelector()
        self.open = self.made = self.failed = 0
        self.lock = threading.Lock()
        self.ends = False

    def connect(self):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", self.port))
        kind = self.made % 3
        self.selector.register(s, selectors.EVENT_READ | selectors.EVENT_WRITE, kind)
        self.made += 1
        self.open += 1

    def forget(self, s):
        self.selector.unregister(s)
        s.close()
        self.open -= 1

    def ready(self, key, events):
        s, kind = key.fileobj, key.data
        try:
            if events & selectors.EVENT_WRITE:
                s.sendall((b"", self.hello[:20], self.hello)[kind])
                self.selector.modify(s, selectors.EVENT_READ, kind)
            if events & selectors.EVENT_READ and not s.recv(65536):
                self.forget(s)
        except OSError:
            self.failed += 1
            self.forget(s)

    def run(self):
        allowed, last = 0.0, time.monotonic()
        while not self.ends:
            now = time.monotonic()
            allowed, last = min(allowed + (now - last) * BACK_PER_SECOND, BACK_PER_SECOND / 10), now
            while self.open < SILENT and allowed >= 1:
                self.connect()
                allowed -= 1
            for key, events in self.selector.select(0.02):
                self.ready(key, events)


def stolen(fleet):
    """Connections that are let in and then say nothing."""
    held = []
    for i in range(STOLEN):
        tls = fleet.issue("agent", "stolen-%d" % i)
        held += [sp.Connection("127.0.0.1:" + fleet.ports["ingest"], sp.SP_REQ, tls) for _ in range(OF_EACH)]
    return held


def status(pid):
    """Resident KiB and open descriptors."""
    with open("/proc/%d/status" % pid) as f:
        kib = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    return kib, len(os.listdir("/proc/%d/fd" % pid))


class Watch(threading.Thread):
    """The most memory and descriptors seen of a process."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.kib = self.files = 0
        self.ends = False

    def run(self):
        while not self.ends:
            kib, files = status(self.pid)
            self.kib, self.files = max(self.kib, kib), max(self.files, files)
            time.sleep(0.1)


def agents(fleet, seconds):
    """Runs the honest ones to their end; their figures by name."""
    bench = os.path.join(BIN, "bench_fleet")
    done = subprocess.run([bench, "--agents", str(AGENTS), "--processes", "50", "--samples-per-batch", "5", "--seconds", str(seconds),
                           "--dir", fleet.path("bench"), "--collector", "127.0.0.1:" + fleet.ports["ingest"], "--format", "json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    check("the agents were all served (%s)" % done.stderr.decode().strip(), done.returncode, 0)
    return {f["name"]: f["value"] for f in map(json.loads, done.stdout.decode().splitlines())}


hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if hard != resource.RLIM_INFINITY and hard < SILENT + 2000:
    skip("%d descriptors are allowed, %d are needed" % (hard, SILENT + 2000))
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if not os.path.exists(os.path.join(BIN, "bench_fleet")):
    skip("bench_fleet is not built")

with Fleet() as fleet:
    fleet.start_collector()
    pid = fleet.collector.pid
    os.mkdir(fleet.path("bench"))
    os.symlink(fleet.path("pki"), fleet.path("bench", "keys"))
    quiet = agents(fleet, 3)
    kib_before, files_before = status(pid)

    held = stolen(fleet)
    silent = Silent(int(fleet.ports["ingest"]))
    silent.start()
    # All have tried, and those without a byte arrive when the system no longer waits for one.
    fleet.wait_for("%d silent connections" % SILENT, lambda: silent.made >= SILENT, 60)
    time.sleep(8)
    watch = Watch(pid)
    watch.start()
    kib_early, files_early = status(pid)
    crowded = agents(fleet, SECONDS)
    kib_late, files_late = status(pid)
    watch.ends = True
    watch.join()
    made, still = silent.made, silent.open
    silent.ends = True
    silent.join()

    for name, figures in (("alone", quiet), ("in the crowd", crowded)):
        print("%d agents %s: all in after %.1f s, acknowledged p50 %.1f ms, p99 %.1f ms"
              % (AGENTS, name, figures["fleet_connect_all"], figures["fleet_ack_p50"], figures["fleet_ack_p99"]))
    print("silent: %d, %d of them open now, connected %d times; collector: %d KiB and %d files before, %d and %d at first, at most %d and %d, %d and %d"
          " at the end" % (SILENT, still, made, kib_before, files_before, kib_early, files_early, watch.kib, watch.files, kib_late, files_late))
    ensure("the silent ones were sent away and came again", made > SILENT + 500, str(made))
    ensure("the agents are in within 30 s", crowded["fleet_connect_all"] < 30)
    ensure("acknowledgements: p99 under a second", crowded["fleet_ack_p99"] < 1000)
    most = PLACES + AGENTS + len(held)
    ensure("descriptors stay within the places", watch.files < files_before + most + 100, str(watch.files))
    if not SANITIZED:
        ensure("memory stays within the places", watch.kib < kib_before + most * 128 + (64 << 10), str(watch.kib))
    refusals = [line for line in fleet.log("collector.log").splitlines() if " ingest refused " in line]
    ensure("the log is not flooded", len(refusals) < 200, str(len(refusals)))
    check("the collector lives", fleet.collector.poll(), None)
    check("the collector ends as told", fleet.stop(fleet.collector), 0)
sys.exit(0)
