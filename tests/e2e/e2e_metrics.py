"""The collector's numbers over HTTP: strict OpenMetrics, the same as the command line's answers, whatever names and clients come."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import openmetrics as om
from fleet import ROOT, Fleet, check, ensure

FAST = {"batch__max_age": "1s"}
HOSTILE = ('a"b\\c', "new\nline", "gr\u00f6\u00dfe {x=1}", "# EOF")  # names of programs; Linux keeps 15 bytes


def get(fleet, path):
    """(status, content type, body)"""
    try:
        with urllib.request.urlopen("http://127.0.0.1:%s%s" % (fleet.ports["http"], path), timeout=60) as r:
            return r.status, r.headers["Content-Type"], r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers["Content-Type"], e.read()


def metrics(fleet):
    status, kind, body = get(fleet, "/metrics")
    if (status, kind) != (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"):
        ensure("metrics are given as OpenMetrics", False, (status, kind, body[:200]))
    return om.read(body)


def documented():
    """{family: (type, labels)} of docs/figures.md."""
    found = {}
    with open(os.path.join(ROOT, "docs", "figures.md"), encoding="utf-8") as f:
        for line in f:
            m = re.match(r"\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", line)
            if m:
                found[m.group(1)] = (m.group(2), tuple(re.findall(r"`(\w+)`", m.group(3))), m.group(4))
    return found


def agree_with_document(families):
    told = documented()
    seen = {}
    for name, f in families.items():
        pairs = {tuple(sorted(k for k, _ in labels)) for _, labels in f["samples"]}
        if len(pairs) != 1:
            check("all samples of %s have the same labels" % name, len(pairs), 1)
        seen[name + om.SUFFIX[f["type"]]] = (f["type"], pairs.pop(), f["help"])
    wrong = {k: v for k, v in seen.items() if told.get(k, (0, (), 0))[0] != v[0] or tuple(sorted(told[k][1])) != v[1] or told[k][2] != v[2]}
    for name, (kind, labels, meaning) in wrong.items():  # the rows as they should be, to be pasted
        print("| `%s` | %s | %s | %s |" % (name, kind, ", ".join("`%s`" % x for x in labels) or "-", meaning))
    check("docs/figures.md has every metric, with type, labels and meaning", wrong, {})
    # With http.programs_more, and where hosts have such events: e2e_replay_clr
    more = {"procfleet_program_" + n for n in ("tcp_send_rate", "tcp_recv_rate", "ready_threads", "gc_pause_ratio")}
    check("and no other", sorted(set(told) - set(seen)), sorted(more))


def hostile_programs(fleet):
    made = []
    for name in HOSTILE:
        path = fleet.path(name)
        shutil.copy(shutil.which("sleep"), path)
        made.append(subprocess.Popen([path, "600"]))
        fleet.processes.append(made[-1])
    return made


def same_numbers(fleet, families):
    """The agent has stopped: nothing changes any more."""
    hosts = fleet.hosts()
    host = hosts["agent-one"]
    pairs = {"host": "agent-one", "id": host["id"]}
    check("the host is up", om.value(families, "procfleet_host_up", **pairs), 1)
    check("its processes", om.value(families, "procfleet_host_processes", **pairs), host["processes"])
    check("its losses", om.value(families, "procfleet_host_lost_events_total", **pairs), host["lost_events"])
    seen = fleet.ask("overview", expect=None)[0]
    check("hosts", om.value(families, "procfleet_fleet_hosts"), seen["hosts"])
    check("connected ones", om.value(families, "procfleet_fleet_hosts_up"), seen["connected"])
    check("processes of all", om.value(families, "procfleet_fleet_processes"), seen["processes"])
    check("batches", om.value(families, "procfleet_store_batches_total"), seen["batches"])
    if host["last_time"] - host["first_time"] > 55 * 10**9:
        print("a slow machine: more than the last minute of data, CPU and memory are not compared")
        return
    cpu = fleet.ask("top", "--group-by", "host", "--by", "cpu_time", "--as", "rate", expect=None)[0]["cpu_time"]
    ensure("CPUs kept busy", abs(om.value(families, "procfleet_host_cpu_cores", **pairs) * 1e9 - cpu) < 1)
    check("and of the fleet", om.value(families, "procfleet_fleet_cpu_cores"), om.value(families, "procfleet_host_cpu_cores", **pairs))
    memory = fleet.ask("top", "--group-by", "host", "--by", "working_set_size", expect=None)[0]["working_set_size"]
    check("memory", om.value(families, "procfleet_host_resident_bytes", **pairs), memory)


def same_programs(fleet, families, sleepers):
    rows = fleet.ask("top", "--group-by", "image", "--by", "cpu_time", "--as", "rate", "-n", "4096", expect=None)
    told = {labels["program"]: v for labels, v in om.rows(families, "procfleet_program_cpu_cores")}
    names = {r.get("name", "") for r in rows}
    check("programs are those of the command line", sorted(set(told) - names), [])
    hostile = [fleet.ask("ps", "--pid", str(p.pid), expect=None)[0]["name"] for p in sleepers]
    ensure("hostile names are among them: %r" % hostile, set(hostile) <= set(told) and any('"' in n for n in hostile))
    return told, {r.get("name", ""): r["cpu_time"] for r in rows}


def still(fleet):
    """The numbers when they are as new as the command line's; or None."""
    families = metrics(fleet)
    batches = om.value(families, "procfleet_store_batches_total")
    return families if batches == fleet.ask("overview", expect=None)[0]["batches"] else None


def truth(fleet):
    agent = fleet.start_agent("agent-one", **FAST)
    sleepers = hostile_programs(fleet)
    fleet.wait_for("their rows", lambda: sum(len(fleet.ask("ps", "--pid", str(p.pid), expect=None)) for p in sleepers) == len(HOSTILE))
    batches = fleet.hosts()["agent-one"]["batches"]
    fleet.wait_for("two batches more", lambda: fleet.hosts()["agent-one"]["batches"] > batches + 1)
    agent.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # what is on its way arrives, and http.refresh is over: a comparison, no condition
    families = fleet.wait_for("the numbers to stand still", lambda: still(fleet))
    agree_with_document(families)
    same_numbers(fleet, families)
    host = fleet.hosts()["agent-one"]
    told, asked = same_programs(fleet, families, sleepers)
    if time.time() - host["first_time"] / 1e9 < 55:
        check("their CPUs", {n: v for n, v in told.items() if abs(v * 1e9 - asked[n]) > 1}, {})
    for name, f in families.items():
        if not f["samples"]:
            ensure("%s has samples" % name, False)
    agent.kill()
    agent.wait()


def bounded(fleet):
    """More hosts than http.hosts_max."""
    for name in ("agent-two", "agent-zero"):
        fleet.start_agent(name, **FAST)
    fleet.wait_for("three hosts", lambda: len(fleet.hosts()) == 3)
    fleet.stop(fleet.collector)
    fleet.start_collector(listen__console="127.0.0.1:0", http__refresh="1s", http__hosts_max="1", http__programs="2")
    fleet.silent = half_a_request(fleet)
    families = fleet.wait_for("two of them to come again", lambda: (lambda f: om.value(f, "procfleet_fleet_hosts_up") == 2 and f)(metrics(fleet)))
    check("the first by name has numbers", [labels["host"] for labels, _ in om.rows(families, "procfleet_host_up")], ["agent-one"])
    check("the others are counted", om.value(families, "procfleet_fleet_hosts_left_out"), 2)
    programs = len(om.rows(families, "procfleet_program_resident_bytes"))
    ensure("programs are few: %d" % programs, 2 <= programs <= 4)


def half_a_request(fleet):
    s = socket.create_connection(("127.0.0.1", int(fleet.ports["http"])), timeout=60)
    s.sendall(b"GET /met")
    return s


def sent_away(s):
    try:
        said = s.recv(100)
    except ConnectionResetError:
        said = b""
    check("who says half a request is sent away", said, b"")
    s.close()


def crowd(fleet):
    """Clients that hold what they can get, while somebody scrapes."""
    address = ("127.0.0.1", int(fleet.ports["http"]))
    descriptors = lambda: len(os.listdir("/proc/%d/fd" % fleet.collector.pid))  # noqa: E731
    before = descriptors()
    held = [socket.create_connection(address) for _ in range(200)]
    for s in held[::2]:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
    metrics(fleet)
    fleet.wait_for("only 64 to be held", lambda: descriptors() - before <= 64 + 8)
    ensure("some are: %d" % (descriptors() - before), descriptors() - before > 16)
    for s in held:
        s.close()
    for request in (b"\x00" * 100, b"GET " + b"a" * 100000, b"GET / HTTP/1.1\r\n" * 1000, b"\r\n" * 5000):
        with socket.create_connection(address, timeout=60) as s:
            try:
                s.sendall(request)
                while s.recv(4096):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
    check("all is well", get(fleet, "/healthz")[::2], (200, b"ok\n"))
    metrics(fleet)


def readiness(fleet):
    check("healthy", get(fleet, "/healthz")[::2], (200, b"ok\n"))
    check("ready", get(fleet, "/readyz")[::2], (200, b"ok\n"))
    check("no such page", get(fleet, "/")[0], 404)
    pid, free = fleet.collector.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, free))  # the log cannot grow: as a full disk
    status, _, body = fleet.wait_for("the store to find no room", lambda: (lambda r: r[0] != 200 and r)(get(fleet, "/readyz")))
    check("not ready, and why", (status, body), (503, b"the disk of data_dir has no room for the log: agents wait\n"))
    check("healthy all the same", get(fleet, "/healthz")[0], 200)
    fleet.wait_for("the figure to say so too", lambda: om.value(metrics(fleet), "procfleet_store_no_space") == 1)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (free, free))
    fleet.wait_for("the store to go on", lambda: get(fleet, "/readyz")[0] == 200)


def main():
    with Fleet() as fleet:
        fleet.start_collector(listen__console="127.0.0.1:0", http__refresh="1s", http__programs="500")
        truth(fleet)
        bounded(fleet)
        sent_away(fleet.silent)
        crowd(fleet)
        readiness(fleet)


main()
