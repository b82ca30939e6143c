"""What the service manager hears (sd_notify): ready when the ports answer, progress of a recovery, a watchdog that is fed only as
long as every stage moves, and the end. One thread of a program is frozen from outside, by ptrace."""

import ctypes
import os
import re
import signal
import socket
import threading
import time

from fleet import Fleet, check, ensure, skip

WATCHDOG_S = 4.0  # a word every second
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Manager:
    """A socket that keeps what it hears, and looks around at the moment of READY=1."""

    def __init__(self, path, on_ready=None):
        self.path, self.on_ready, self.heard = path, on_ready, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            text = self.socket.recv(4096).decode()
            if "READY=1" in text and self.on_ready:
                self.seen = self.on_ready()
            self.heard.append((time.monotonic(), text))

    def lines(self):
        return [line for _, text in list(self.heard) for line in text.split("\n")]

    def fed(self):
        return [at for at, text in list(self.heard) if "WATCHDOG=1" in text]

    def env(self):
        return {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}


def with_env(env, start):
    os.environ.update(env)
    try:
        return start()
    finally:
        for name in env:
            del os.environ[name]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), 5).close()
        return True
    except OSError:
        return False


def thread_of(process, name):
    for tid in os.listdir("/proc/%d/task" % process.pid):
        with open("/proc/%d/task/%s/comm" % (process.pid, tid)) as f:
            if f.read().strip() == name:
                return int(tid)
    return None


def standing_back(process):
    """Names of threads in the class for work that interrupts nobody: all that tells them where the test itself has the lowest priority."""
    names = set()
    for tid in os.listdir("/proc/%d/task" % process.pid):
        with open("/proc/%d/task/%s/comm" % (process.pid, tid)) as f:
            if os.sched_getscheduler(int(tid)) == os.SCHED_BATCH:
                names.add(f.read().strip())
    return sorted(names)


class Frozen:
    """One thread of a child stands still; the others go on."""

    def __init__(self, tid):
        self.tid = tid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long

    def __enter__(self):
        if self.libc.ptrace(SEIZE, self.tid, None, None) != 0:
            skip("ptrace is not allowed here: %s" % os.strerror(ctypes.get_errno()))
        self.libc.ptrace(INTERRUPT, self.tid, None, None)
        os.waitpid(self.tid, WALL)
        return self

    def __exit__(self, *rest):
        self.libc.ptrace(DETACH, self.tid, None, None)


def goes_silent(fleet, manager, why):
    fleet.wait_for("the watchdog to hear nothing: " + why, lambda: time.monotonic() - manager.fed()[-1] > 2.5)
    print("ok: nobody feeds the watchdog:", why)


def feeds_again(fleet, manager):
    before = len(manager.fed())
    fleet.wait_for("the watchdog to be fed again", lambda: len(manager.fed()) >= before + 2)


def watched(fleet, manager, process, *threads):
    fleet.wait_for("READY=1", lambda: "READY=1" in manager.lines())
    fleet.wait_for("the watchdog to be fed", lambda: len(manager.fed()) >= 3)
    process.send_signal(signal.SIGSTOP)
    try:
        goes_silent(fleet, manager, "the process is stopped")
    finally:
        process.send_signal(signal.SIGCONT)
    feeds_again(fleet, manager)
    for thread in threads:
        with Frozen(fleet.wait_for("thread " + thread, lambda: thread_of(process, thread))):
            goes_silent(fleet, manager, "thread %s is frozen" % thread)
        feeds_again(fleet, manager)


def collector(fleet):
    ports = fleet.path("ports")

    def look():
        if not os.path.exists(ports):
            return None
        with open(ports) as f:
            rows = dict(line.strip().split("=") for line in f)
        return {name: answers(port) for name, port in rows.items() if port != "0"}

    manager = Manager(fleet.path("collector.notify"), look)
    process = with_env(manager.env(), fleet.start_collector)
    answering = ["console", "http", "lab", "query"]
    fleet.wait_for("who answers questions to stand back", lambda: set(answering) <= set(standing_back(process)))
    check("nobody on the way of a batch does", standing_back(process), answering)
    parts = ("store", "feed", "polls", "http", "trust", "events")  # events: the listener's own thread
    watched(fleet, manager, process, *parts)
    ensure("at READY=1 every port answers", manager.seen and all(manager.seen.values()), manager.seen)
    said = re.findall("collector stuck what=(\\w+)", fleet.log("collector.log"))
    ensure("the log says what stood still", set(parts) <= set(said), said)
    return manager, process


def agent(fleet):
    manager = Manager(fleet.path("agent.notify"))
    process = with_env(manager.env(), lambda: fleet.start_agent("watched"))
    watched(fleet, manager, process, "core")
    fleet.wait_for("data in the log", lambda: "watched" in fleet.hosts())
    check("the agent ends well", fleet.stop(process), 0)
    ensure("and says so", "STOPPING=1" in manager.lines())


with Fleet() as fleet:
    manager, process = collector(fleet)
    agent(fleet)
    check("the collector ends well", fleet.stop(process), 0)
    ensure("and says so", "STOPPING=1" in manager.lines())
    second = Manager(fleet.path("again.notify"), lambda: None)
    process = with_env(second.env(), fleet.start_collector)
    fleet.wait_for("READY=1", lambda: "READY=1" in second.lines())
    lines = second.lines()
    told = [i for i, line in enumerate(lines) if line.startswith("STATUS=reading the log")]
    ensure("recovery tells how far it is, and asks for time, before READY=1",
           told and told[-1] < lines.index("READY=1") and any(x.startswith("EXTEND_TIMEOUT_USEC=") for x in lines), lines)
    check("the collector ends well", fleet.stop(process), 0)
