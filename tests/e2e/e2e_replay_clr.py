"""What .NET and the network did in replayed recordings, asked of a collector beside a live host.

The figures are those that were computed independently of this project from the raw payloads.
"""

import json
import sys
import urllib.request

import openmetrics
from fleet import Fleet, check, corpus, ensure

TRACES = {"net.4.5.2.x64": "net.4.5.2.x64.etl.xz", "gc-dynamic-events": "gc-dynamic-events.etl", "gcevents": "gcevents.etl"}
NETWORK = "tx-KernelNetwork"
NET = {"tcp_send_bytes": "tcp%d_sent_bytes", "tcp_recv_bytes": "tcp%d_received_bytes",
       "udp_send_bytes": "udp%d_sent_bytes", "udp_recv_bytes": "udp%d_received_bytes"}


def expected(name):
    with open(corpus("expected/%s.json" % name), encoding="utf-8") as f:
        return json.load(f)


def told(p):
    """Figures of a process as the expected file has them; pauses there are milliseconds to three digits."""
    return {"clr.gc_count": p["gc"]["count"], "clr.gc_gen1": p["gc"]["by_generation"].get("1", 0),
            "clr.gc_gen2": p["gc"]["by_generation"].get("2", 0), "clr.gc_pause": p["pause"]["gc_total_ms"],
            "clr.alloc_bytes": p["alloc"]["bytes"], "clr.jit_methods": p["jit"]["paired"],
            "clr.exceptions": sum(p["exceptions"].values())}


def clr(fleet, name):
    rows = {r["pid"]: r for r in fleet.ask("ps", "--all", "--host", name)}
    for p in expected("clr-" + name)["processes"]:
        row = rows[p["pid"]]
        got = {k: row.get(k, 0) for k in told(p)}
        got["clr.gc_pause"] = round(int(got["clr.gc_pause"]) / 1e6, 3)
        check("%s, process %d: what .NET did" % (name, p["pid"]), got, told(p))


def network(fleet):
    pids = expected("manifest-" + NETWORK)["per_payload_pid"]
    for metric, key in NET.items():
        want = {int(pid): sum(p.get(key % v, 0) for v in (4, 6)) for pid, p in pids.items()}
        rows = fleet.ask("top", "--host", NETWORK, "--by", metric, "-n", "100")
        check("%s of every process" % metric, {r["pid"]: r[metric] for r in rows}, want)


def leads(fleet, metric, host, pid):
    rows = fleet.ask("top", "--by", metric, "-n", "1000")
    check("over the fleet, %s: who leads" % metric, (rows[0]["host"], rows[0]["pid"]), (host, pid))
    values = [int(r[metric]) for r in rows]
    ensure("rows are in order", values == sorted(values, reverse=True))
    ensure("the live host, which cannot tell it, is absent", all(r["host"] != "live" for r in rows))


def programs(fleet):
    """What /metrics has of programs beside CPU and memory, over the last minute: the recordings end now."""
    def told(name):
        with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"], timeout=60) as r:
            rows = openmetrics.rows(openmetrics.read(r.read()), "procfleet_program_" + name)
        return {labels["program"]: v for labels, v in rows}

    for name, metric, unit in (("tcp_recv_rate", "tcp_recv_bytes", 1), ("gc_pause_ratio", "clr.gc_pause", 10**9)):
        rows = {r.get("name", ""): r for r in fleet.ask("top", "--group-by", "image", "--by", metric, "-n", "4096", "--since", "60s", expect=None)}
        got = {p: round(v * 60 * unit) for p, v in told(name).items() if v}
        check("/metrics: %s" % name, got, {p: int(rows[p][metric]) for p in got})
        ensure("/metrics: %s of somebody" % name, got)
    waits = fleet.wait_for("threads of the live host that waited", lambda: told("ready_threads"))
    ensure("/metrics: threads that wait for a CPU", all(v >= 0 for v in waits.values()), waits)


with Fleet() as fleet:
    paths = {name: corpus("public/" + file) for name, file in dict(TRACES, **{NETWORK: NETWORK + ".etl.xz"}).items()}
    fleet.start_collector(http__programs="500", http__programs_more="true", http__refresh="1s")
    fleet.start_agent("live")
    for name, path in paths.items():
        fleet.replay(name, path)
    programs(fleet)
    for name in TRACES:
        clr(fleet, name)
    network(fleet)
    leads(fleet, "clr.gc_pause", "gc-dynamic-events", 7608)
    leads(fleet, "tcp_recv_bytes", NETWORK, 2716)
    rows = fleet.wait_for("time that somebody waited for a CPU", lambda: fleet.ask("top", "--by", "ready_time"))
    ensure("ready_time is the live host's alone", all(r["host"] == "live" and int(r["ready_time"]) >= 0 for r in rows), rows)
sys.exit(0)
