"""Recorded Windows traces, replayed as hosts, come back out with the figures that were computed independently of this project."""

import json
import sys

from fleet import Fleet, check, corpus, ensure

TRACES = {"net.4.5.2.x64": 1, "diaghub.kernel.1": 1}


def expected(name):
    with open(corpus("expected/%s.json" % name)) as f:
        return json.load(f)["figures"]


def starts_and_stops(figures):
    starts, stops = [], []
    for p in figures["processes"]:
        if 1 in p["seen"]:
            starts.append((p["pid"], p["ppid"], p["image"], p["cmdline"]))
        if 2 in p["seen"]:
            stops.append((p["pid"], p["image"], p["exit_status"] & 0xFFFFFFFF))
    return sorted(starts), sorted(stops)


def lifecycle(fleet, name):
    events = fleet.ask("events", "--host", name, "-n", "1000")
    starts, stops = starts_and_stops(expected(name))
    got = sorted((e["pid"], e["parent_pid"], e["name"], e["command_line"]) for e in events if e["kind"] == "process_start")
    check("%s: every process start, once" % name, got, starts)
    got = sorted((e["pid"], e["name"], e["exit_code"]) for e in events if e["kind"] == "process_stop")
    check("%s: every process end with its exit code, once" % name, got, stops)
    check("%s: no other events" % name, len(events), len(starts) + len(stops))


def cpu_time_from_samples(fleet):
    rows = fleet.ask("top", "--host", "net.4.5.2.x64", "--by", "cpu_time")
    first = rows[0]
    check("pid 3676 leads with 5,106 samples of 1 ms", (first["pid"], first["name"], first["cpu_time"]),
          (3676, "Test.x64.exe", 5106 * 10**6))
    check("the origin of its CPU time is told", first["cpu_time_origin"], "samples")
    ensure("idle is hidden unless asked for", all(r["pid"] != 0 for r in rows))
    # Plain samples = all samples less those with the DPC or ISR bit (corpus README).
    interrupted = {0: 105, 4: 1, 980: 1, 1104: 1, 1632: 2, 3516: 1, 3676: 23, 3988: 1}
    samples = {int(pid): n for pid, n in expected("net.4.5.2.x64")["samples_by_pid"].items()}
    plain = {pid: n - interrupted.get(pid, 0) for pid, n in samples.items() if pid != 0}
    rows = fleet.ask("top", "--host", "net.4.5.2.x64", "--by", "cpu_time", "-n", "1000")
    got = {r["pid"]: r["cpu_time"] // 10**6 for r in rows if r.get("cpu_time")}
    check("every process has its plain samples", got, {pid: n for pid, n in plain.items() if n})


def events_charged(fleet):
    figures = expected("net.4.5.2.x64")
    columns = {
        "tcp_send_bytes": figures["net_bytes_by_pid"]["tcp_send"],
        "tcp_recv_bytes": figures["net_bytes_by_pid"]["tcp_recv"],
        "udp_recv_bytes": figures["net_bytes_by_pid"]["udp_recv"],
        "disk_reads": figures["disk"]["reads_by_pid"],
        "hard_fault_bytes": figures["hardfault_bytes_by_pid"],
        "image_loads": figures["image_loads_by_pid"],
        "threads_started": figures["threads"]["started_by_pid"],
    }
    for metric, by_pid in columns.items():
        rows = fleet.ask("top", "--host", "net.4.5.2.x64", "--by", metric, "-n", "1000", "--idle")
        check("%s of every process" % metric, {str(r["pid"]): r[metric] for r in rows if r.get(metric)}, by_pid)
    rows = fleet.ask("top", "--host", "net.4.5.2.x64", "--by", "ready_time", "-n", "1000", expect=None)
    ensure("what no record tells is absent", not any("ready_time" in r for r in rows or []))
    rows = {r["pid"]: r for r in fleet.ask("ps", "--all", "--host", "net.4.5.2.x64") if r["pid"] in (624, 3676)}
    check("ps --all has metrics of both pages", (rows[624]["handle_count"], rows[3676]["image_loads"], rows[3676]["threads_started"]),
          (150, 31, 4))


for name in TRACES:
    corpus("public/%s.etl.xz" % name)

with Fleet() as fleet:
    fleet.start_collector()
    for name in TRACES:
        fleet.replay(name, corpus("public/%s.etl.xz" % name))
    check("both traces are hosts", sorted(fleet.hosts()), sorted(TRACES))
    cpu_time_from_samples(fleet)
    events_charged(fleet)
    for name in TRACES:
        lifecycle(fleet, name)
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector()
    cpu_time_from_samples(fleet)
    events_charged(fleet)
    for name in TRACES:
        lifecycle(fleet, name)
    code, _, err = fleet.cli("top", "--host", "no-such-host", expect=None)
    check("a missing host makes the answer partial", code, 5)
sys.exit(0)
