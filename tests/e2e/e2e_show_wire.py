"""`procfleet-agent show-wire`: what would leave this machine, and what the filters and the policy for command lines keep here."""

import json
import os
import re
import subprocess
import sys

from fleet import BIN, check, corpus, ensure, read_json

AGENT = os.path.join(BIN, "procfleet-agent")
FAST = ["--set", "sampling.rate_hz=10", "--set", "batch.samples=5"]


def run(*args, expect=0):
    done = subprocess.run([AGENT, "show-wire", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=50)
    check("show-wire %s ends with %d" % (" ".join(args), expect), done.returncode, expect)
    return done.stdout.decode()


def lines(*args):
    raw = run("--format", "jsonl", *args).splitlines()
    ensure("no number exceeds 2^53", not [w for line in raw for w in re.findall(r": (-?\d{16,})", line) if abs(int(w)) > 2**53])
    rows = [read_json(line) for line in raw]
    check("the sums come last", [r["type"] for r in rows].index("total"), len(rows) - 1)
    return rows


def of(rows, kind):
    return [r for r in rows if r["type"] == kind]


SECRET = "hunter2-of-show-wire"
worker = subprocess.Popen([sys.executable, "-c", "while True: pass", "--password", SECRET])
try:
    for span in ("1500ms", "5s", "15s"):  # a busy machine may hold it up
        rows = lines("--for", span, *FAST)
        batches, samples, total = of(rows, "batch"), of(rows, "sample"), rows[-1]
        if len(batches) >= 2 and len({s.get("cpu_time") for s in samples if s["pid"] == worker.pid}) >= 2:
            break
    ensure("there are batches", len(batches) >= 2, len(batches))
    check("numbered without a hole", [b["seq"] for b in batches], list(range(1, len(batches) + 1)))
    ensure("the last one says so", batches[-1].get("last"), batches[-1])
    check("their bytes are summed", total["bytes"], sum(b["bytes"] for b in batches))
    check("so are values", total["values"],
          sum(len(set(s) - {"type", "time", "pid", "start", "fresh"}) for s in samples))
    mine = [s for s in samples if s["pid"] == worker.pid]
    ensure("the worker is sampled and its CPU time grows", len(mine) >= 2 and mine[-1]["cpu_time"] > mine[0]["cpu_time"], mine)
    told = [p for p in of(rows, "process") if p["pid"] == worker.pid]
    ensure("its command line without the secret", told and told[0]["command_line"].endswith("--password ***"), told)
    ensure("which is counted", total["redacted"] >= 1, total)
    ensure("and nowhere else either", SECRET not in json.dumps(rows))

    only = ["--set", "process_filter.target_processes=%d" % worker.pid]
    rows = lines("--for", "1s", *FAST, *only)
    check("only who is wanted has samples", {s["pid"] for s in of(rows, "sample")}, {worker.pid})
    check("and attributes", {p["pid"] for p in of(rows, "process")}, {worker.pid})
    check("and events", {e["pid"] for e in of(rows, "event") if "pid" in e} - {worker.pid}, set())
    ensure("the others are counted", rows[-1]["filtered"] > 10, rows[-1])
    ledger = [r for r in of(rows, "ledger") if (r["stage"], r["reason"]) == ("filter", "filtered")]
    ensure("in the ledger too", ledger and sum(r["count"] for r in ledger) > 10, ledger)

    name = os.path.basename(os.readlink("/proc/%d/exe" % worker.pid))
    rows = lines("--for", "1s", *FAST, "--set", "process_filter.exclude_names=PYTHON*",
                 "--set", "process_filter.exclude_system_processes=true")
    ensure("who is excluded by name does not appear", worker.pid not in {r.get("pid") for r in rows}, name)
    ensure("others do", len({s["pid"] for s in of(rows, "sample")}) > 0, rows[-1])
    ensure("kernel threads do not", not [p for p in of(rows, "process") if p.get("parent_pid") == 2], rows)

    rows = lines("--for", "500ms", *FAST, *only, "--set", "privacy.command_line=none")
    ensure("no command line by policy", all("command_line" not in p for p in of(rows, "process")), rows)
    text = run("--for", "500ms", *FAST, *only)
    ensure("as text", text.startswith("batch seq=1 ") and text.splitlines()[-1].startswith("total batches="), text)
    with open("/dev/full", "w") as full:
        done = subprocess.run([AGENT, "show-wire", "--for", "1s"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=50)
    check("an output that cannot be written is a failure", done.returncode, 1)
finally:
    worker.kill()
    worker.wait()

run("--format", "xml", expect=2)
run("--for", "soon", expect=2)
run("a.etl", "b.etl", expect=2)
run("a.etl", "--for", "1s", expect=2)
run("no/such.etl", expect=1)


# A recording: every start and end that was recorded would be sent, once.
trace = corpus("public/net.4.5.2.x64.etl.xz")
with open(corpus("expected/net.4.5.2.x64.json")) as f:
    expected = json.load(f)["figures"]["processes"]
rows = lines(trace, "--set", "privacy.command_line=full")
for kind, seen in (("process_start", 1), ("process_stop", 2)):
    check("every %s of the recording" % kind, sorted(e["pid"] for e in of(rows, "event") if e["kind"] == kind),
          sorted(p["pid"] for p in expected if seen in p["seen"]))
ensure("it is a replay", all(b.get("replay") for b in of(rows, "batch")))
cpu = max(s["cpu_time"] for s in of(rows, "sample") if s["pid"] == 3676 and "cpu_time" in s)
check("CPU time as recorded", cpu, 5106 * 10**6)
rows = lines(trace, "--set", "process_filter.target_process_names=test.x64.exe")
check("filtered by name", {r["pid"] for r in rows if "pid" in r}, {3676})
check("with its CPU time", max(s.get("cpu_time", 0) for s in of(rows, "sample")), cpu)
