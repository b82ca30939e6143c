"""procfleet-agent etl clr over real recordings: every figure as computed independently from the raw payloads."""

import csv
import datetime
import glob
import io
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict

from fleet import BIN, corpus, ensure

AGENT = os.path.join(BIN, "procfleet-agent")
EXPECTED = corpus("expected")
PUBLIC = corpus("public")

POOL = {50: "ThreadPoolWorkerThreadStart", 51: "ThreadPoolWorkerThreadStop"}


def run(*args, expect=0):
    r = subprocess.run([AGENT, "etl", *args], capture_output=True, timeout=120, check=False)
    if r.returncode != expect:
        print("FAILED: etl %s: exit code %d\n%s" % (" ".join(args), r.returncode, r.stderr.decode()))
        sys.exit(1)
    return r.stdout.decode(), r.stderr.decode()


def rows(path, what, *more):
    return json.loads(run("clr", path, "--what", what, "--format", "json", *more)[0])


def ms(row, key):
    """A span as the expected figures have it."""
    return round(int(row.get(key, 0)) / 1e6, 3)


def relms(ns, begin_ns):
    return (int(ns) - begin_ns) / 1e6


def begin_of(path):
    text = json.loads(run("summary", path, "--format", "json")[0])["start_time"]
    t = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return round(t.timestamp() * 1e6) * 1000


def same(name, pid, what, ours, theirs):
    if ours != theirs:
        print("FAILED: %s, process %d: %s: %r, expected %r" % (name, pid, what, ours, theirs))
        sys.exit(1)


def nonzero(counter):
    return {k: v for k, v in counter.items() if v}


def check_gc(name, pid, want, row, collections, begin):
    gc = want["gc"]
    same(name, pid, "collections", row.get("gcs", 0), gc["count"])
    same(name, pid, "completed", row.get("gc_completed", 0), gc["completed"])
    same(name, pid, "written twice", row.get("gc_repeated", 0), gc["start_records_twice"])
    same(name, pid, "ends without start", row.get("gc_unstarted", 0), gc["stops_without_start"])
    generations = {str(g): row.get("gc_gen%d" % g, 0) for g in range(3)}
    same(name, pid, "generations", nonzero(generations), gc["by_generation"])
    same(name, pid, "longest collection", ms(row, "gc_longest"), gc["longest_gc_ms"] or 0)
    same(name, pid, "all collections", ms(row, "gc_time"), gc["total_gc_ms"])
    same(name, pid, "rows", len(collections), gc["count"])
    same(name, pid, "reasons", Counter(c["reason"] for c in collections), gc["by_reason"])
    same(name, pid, "types", Counter(c["type"] for c in collections), gc["by_type"])
    same(name, pid, "triggers", row.get("gc_triggered", 0), sum(gc["triggered_by_reason"].values()))
    for ours, theirs in zip(collections, gc["first"]):
        same(name, pid, "number", ours["number"], theirs["n"])
        same(name, pid, "generation", ours["generation"], theirs["gen"])
        same(name, pid, "took", round(int(ours.get("took", 0)) / 1e6, 3), theirs["ms"] or 0)
        ensure("start", abs(relms(ours["start_time"], begin) - theirs["start_relms"]) < 0.0025)


def check_pause(name, pid, want, row, pauses, begin):
    p = want["pause"]
    same(name, pid, "suspensions", row.get("suspensions", 0), p["suspensions"])
    same(name, pid, "suspended", ms(row, "suspended"), p["total_ms"])
    same(name, pid, "longest suspension", ms(row, "suspended_longest"), p["longest_ms"])
    same(name, pid, "pauses", row.get("pauses", 0), p["gc_suspensions"])
    same(name, pid, "pause", ms(row, "pause"), p["gc_total_ms"])
    same(name, pid, "longest pause", ms(row, "pause_longest"), p["gc_longest_ms"])
    same(name, pid, "restarts without suspension", row.get("restarts_unsuspended", 0), p["restart_without_suspend"])
    same(name, pid, "suspended twice", row.get("suspended_again", 0), p["second_suspend_before_restart"])
    same(name, pid, "reasons of suspensions", Counter(s["reason"] for s in pauses), p["by_reason"])
    same(name, pid, "sum of rows", round(sum(int(s["took"]) for s in pauses) / 1e6, 3), p["total_ms"])
    if p["longest_at_relms"] is not None:
        ensure("when the longest began", abs(relms(row["suspended_longest_time"], begin) - p["longest_at_relms"]) < 0.0025)


def check_heap(name, pid, want, row):
    keys = ("heap_gen0", "heap_gen1", "heap_gen2", "heap_large", "heap_pinned")
    same(name, pid, "heap", [row[k] for k in keys if k in row], want["heap_last_generation_sizes"] or [])
    same(name, pid, "largest heap", row.get("heap_largest", 0), want["heap_largest_sum"] or 0)


def check_alloc(name, pid, want, row, types):
    a = want["alloc"]
    same(name, pid, "ticks", row.get("alloc_ticks", 0), a["ticks"])
    same(name, pid, "allocated", int(row.get("alloc_bytes", 0)), a["bytes"])
    large = sum(t["large_ticks"] for t in types), sum(t["large_bytes"] for t in types)
    same(name, pid, "large ones", large, (a["by_kind"].get("large", 0), a["bytes_by_kind"].get("large", 0)))
    ours = {t.get("type", ""): (t["ticks"], t["bytes"]) for t in types}
    for t in a["top_types"]:
        same(name, pid, t["type"], ours.get(t["type"]), (t["ticks"], t["bytes"]))
    same(name, pid, "sum of types", sum(t["bytes"] for t in types), a["bytes"])


def check_jit(name, pid, want, row, methods):
    j = want["jit"]
    same(name, pid, "compilations begun", row.get("jit_started", 0), j["jitting_started"])
    same(name, pid, "loads", row.get("methods_loaded", 0), j["load_verbose"] + j["load_plain"])
    same(name, pid, "plain loads", row.get("methods_plain", 0), j["load_plain"])
    same(name, pid, "compiled", row.get("methods_jitted", 0), j["load_verbose_jitted"])
    same(name, pid, "dynamic", row.get("methods_dynamic", 0), j["dynamic"])
    same(name, pid, "unloads", row.get("methods_unloaded", 0), j["unloads"])
    same(name, pid, "pairs", row.get("jit_methods", 0), j["paired"])
    same(name, pid, "time of compilation", ms(row, "jit_time"), j["paired_ms"])
    same(name, pid, "rows of compilations", len(methods), j["paired"])
    ensure("every method has a name", all("." in m["method"] for m in methods))


def check_rest(name, pid, want, row, lists):
    same(name, pid, "exceptions", {e["type"]: e["count"] for e in lists["exceptions"][pid]}, want["exceptions"])
    same(name, pid, "contentions", sum(c["count"] for c in lists["contention"][pid]), want["contention"]["starts"])
    same(name, pid, "adjustments", len(lists["threadpool"][pid]), want["threadpool"]["adjustment_count"])
    same(name, pid, "finalizer runs", row.get("finalizer_runs", 0), want["finalizers"]["runs"])
    same(name, pid, "finalized", row.get("finalized", 0), want["finalizers"]["objects"])
    for provider in ("runtime", "rundown", "private"):
        ours = {"%d v%d" % (e["id"], e["version"]): e["count"] for e in lists["events"][pid] if e["provider"] == provider}
        same(name, pid, provider, ours, want[provider + "_events"])
    pool = Counter({POOL.get(e["id"], e["id"]): e["count"] for e in lists["events"][pid]
                    if e["provider"] == "runtime" and 50 <= e["id"] <= 65})
    ensure("thread pool", sum(pool.values()) == sum(want["threadpool"]["events"].values()))
    for ours, theirs in zip(lists["runtimes"][pid], want["runtime_start"]):
        version = ".".join(str(theirs["VM%sVersion" % k if k in ("Major", "Minor") else "VM%sNumber" % k])
                           for k in ("Major", "Minor", "Build", "Qfe"))
        same(name, pid, "runtime", ours["version"], version)
        same(name, pid, "path", ours.get("path", ""), theirs["RuntimeDllPath"])
        same(name, pid, "command line", ours.get("command_line", ""), theirs["CommandLine"])
        same(name, pid, "kind", ours["kind"], {1: "Framework", 2: "Core"}[theirs["Sku"]])
    same(name, pid, "runtimes started", len(lists["runtimes"][pid]), len(want["runtime_start"]))


def compare(path):
    with open(path, encoding="utf-8") as f:
        want = json.load(f)
    name = want["file"]
    file = os.path.join(PUBLIC, name)
    file = file if os.path.exists(file) else file + ".xz"
    begin = begin_of(file)
    processes = {r["pid"]: r for r in rows(file, "processes")}
    lists = {}
    for what in ("gc", "pauses", "jit", "exceptions", "alloc", "threadpool", "contention", "runtimes", "events"):
        lists[what] = defaultdict(list)
        for r in rows(file, what):
            lists[what][r["pid"]].append(r)
    for p in want["processes"]:
        pid = p["pid"]
        row = processes.get(pid, {})
        check_gc(name, pid, p, row, lists["gc"][pid], begin)
        check_pause(name, pid, p, row, lists["pauses"][pid], begin)
        check_heap(name, pid, p, row)
        check_alloc(name, pid, p, row, lists["alloc"][pid])
        check_jit(name, pid, p, row, lists["jit"][pid])
        check_rest(name, pid, p, row, lists)
        same(name, pid, "image", row.get("process"), p["image"]) if p["image"] else None
    totals = want["totals"]
    ensure("%s: totals" % name, sum(r.get("gcs", 0) for r in processes.values()) == totals["gc"] and
           round(sum(int(r.get("pause", 0)) for r in processes.values()) / 1e6, 3) == totals["gc_pause_ms"])
    print("%s: %d processes equal" % (name, len(want["processes"])))


def formats():
    file = os.path.join(PUBLIC, "gcevents.etl")
    as_json = rows(file, "gc")
    lines = run("clr", file, "--what", "gc", "--format", "jsonl")[0].splitlines()
    ensure("jsonl has the same rows", [json.loads(line) for line in lines] == as_json)
    table = list(csv.DictReader(io.StringIO(run("clr", file, "--what", "gc", "--format", "csv")[0])))
    ensure("csv too", [r["took"] for r in table] == [r["took"] for r in as_json])
    text = run("clr", file, "--what", "gc")[0]
    ensure("a table is made for people", "Induced" in text and "GEN" in text.splitlines()[0])
    ensure("of a process that is not there nothing", rows(file, "gc", "--pid", "1") == [])
    other = os.path.join(PUBLIC, "primitive-types.etl")
    ensure("a recording without .NET says so", "no events of .NET" in "".join(run("clr", other)))
    ensure("an unknown list is a wrong use", "did you mean 'gc'" in run("clr", file, "--what", "gcs", expect=2)[1])


def main():
    files = sorted(glob.glob(os.path.join(EXPECTED, "clr-*.json")))
    ensure("expected figures are there", len(files) >= 5)
    for path in files:
        compare(path)
    formats()


main()
