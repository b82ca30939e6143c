"""Every command of procfleet-etl has what all of them promise: several files, --merge, a range, the formats, -n, a bound of memory, progress, a reason for
an empty answer. Commands and options are what the program says of itself, so a new command cannot miss one; what a command lacks stands here, with why."""

import csv
import io
import json
import lzma
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))

import etl_file as made  # noqa: E402
from fleet import BIN, check, corpus, ensure  # noqa: E402

ETL = os.path.join(BIN, "procfleet-etl")
OTHER = {"session", "completion", "man", "version",  # of the program, not of recordings
         "load",  # writes run files: e2e_etl_load
         "record"}  # writes a recording: e2e_record_wine
OPTIONS = ("merge", "since", "until", "pid", "name", "limit", "manifests", "format", "wide")
LACKS = {
    "info": {"since", "until", "pid", "name", "limit"},  # of the file as a whole
    "summary": {"pid", "name", "limit"},  # one object, with everybody in it
    "layouts": {"merge", "since", "until", "pid", "name", "manifests"},  # takes no recording
}
OBJECTS = ("info", "summary")  # not rows: one object a recording, in CSV a row for each value of it
ALONE = {"layouts"}
ANY = "gc-dynamic-events"
ASKS = {  # a recording that has rows for it; the others are asked of ANY
    "events": "gcevents", "stacks": "net.4.5.x86-win7", "pcap": "pktmon-demikernel", "http": "tx-HTTP_Server", "tcp": "tx-KernelNetwork", "dns": None, "rpc": None, "marks": None,
}
PARTS = ("diaghub.kernel.1", "diaghub.user_injected.1")  # of one host at one time
RESIDENT_MAX = 65536  # KiB
table, room = {}, tempfile.TemporaryDirectory()


def recording(name):
    """Its path; unpacked once."""
    path, plain = os.path.join(corpus("public"), name + ".etl"), os.path.join(room.name, name + ".etl")
    if os.path.exists(path):
        return path
    if not os.path.exists(plain):
        with lzma.open(path + ".xz") as f, open(plain, "wb") as to:
            shutil.copyfileobj(f, to)
    return plain


def run(*args):
    return subprocess.run([ETL, *args], capture_output=True, text=True, timeout=120, check=False)


def ok(*args):
    r = run(*args)
    ensure("%s: exit 0" % " ".join(args)[:90], r.returncode == 0, (r.returncode, r.stderr))
    return r.stdout


def holds(command, what, condition, detail=None):
    table.setdefault(command, {})[what] = condition
    ensure("%s: %s" % (command, what), condition, detail)


def commands():
    text = ok("--help").split("Commands:")[1].split("\n\n")[0]
    return [c for c in re.findall(r"^  ([a-z]+) ", text, re.M) if c not in OTHER]


def has_options(command):
    words = set(re.findall(r"^ *(?:-[a-z], )?--([a-z-]+)", ok(command, "--help"), re.M))
    lacks = LACKS.get(command, set())
    for option in OPTIONS:
        holds(command, "--" + option if option not in lacks else "without --" + option, (option in words) == (option not in lacks), words)


def csv_rows(command, *files):
    return list(csv.DictReader(io.StringIO(ok(command, *files, "--format", "csv"), newline="")))


def leaves(value, path=""):
    """(path, text) of all values of a document."""
    if not isinstance(value, (dict, list)):
        return [(path, "" if value is None else str(value).lower() if isinstance(value, bool) else str(value))]
    members = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for k, v in members for leaf in leaves(v, "%s.%s" % (path, k) if path else str(k))]


def formats(command, files):
    found = json.loads(ok(command, *files, "--format", "json"))
    lines = [json.loads(line) for line in ok(command, *files, "--format", "jsonl").splitlines()]
    if command in OBJECTS:
        holds(command, "JSON, JSONL", found == lines[0], lines)
        rows, both = csv_rows(command, *files), csv_rows(command, *files, *files)
        want = leaves(json.loads(ok(command, *files, "--format", "json"), parse_float=str))
        holds(command, "CSV", [(r["key"], r["value"]) for r in rows] == want, rows[:3])
        holds(command, "CSV of several files", [(r["key"], r["value"]) for r in both] == want * 2 and {r["file"] for r in both} == set(files), both[:3])
        return found
    holds(command, "JSON, JSONL", found == lines, (found[:1], lines[:1]))
    rows = csv_rows(command, *files)
    holds(command, "CSV", len(rows) == len(found), (len(rows), len(found)))
    ok(command, *files)
    r = run(command, *files, "--format", "xml")
    holds(command, "other formats are refused", r.returncode == 2 and "--format" in r.stderr, r)
    return found


def several(command, path, alone):
    both = json.loads(ok(command, path, path, "--format", "json"))
    if command in OBJECTS:
        holds(command, "several files", both == [alone] * 2, len(both))
        return
    holds(command, "several files", len(both) == 2 * len(alone) and all("file" in r for r in both), len(both))
    r = run(command, "/no/such.etl", path, "--format", "json")
    holds(command, "one that is not there", r.returncode == 1 and "/no/such.etl" in r.stderr and len(json.loads(r.stdout)) == len(alone), r.stderr)


def merged(command):
    paths = [recording(p) for p in PARTS]
    r = run(command, "--merge", *paths, "--format", "json")
    found = json.loads(r.stdout or "null")
    one = found["procfleet"]["files"] if command == "summary" else paths if isinstance(found, list) else [f["path"] for f in found.get("files", [])] or paths
    holds(command, "merged parts", r.returncode == 0 and found is not None and len(one) == 2, r.stderr)


def ranged(command, path, alone):
    if "since" in LACKS.get(command, ()):
        return
    r = run(command, path, "--since", "5s", "--until", "4s")
    holds(command, "a range the wrong way round", r.returncode == 2 and "--until is before --since" in r.stderr, r)
    whole = json.loads(ok(command, path, "--since", "0", "--until", "10h", "--format", "json"))
    if command == "summary":
        part = json.loads(ok(command, path, "--until", "100", "--format", "json"))
        holds(command, "a range", 0 < part["events_total"] < whole["events_total"] == alone["events_total"], part["events_total"])
        return
    holds(command, "all of it as a range", whole == alone, (whole[:1], alone[:1]))
    late = json.loads(ok(command, path, "--since", "10h", "--format", "json"))
    holds(command, "nothing of a range behind its end", late == [], late[:2])


def limited(command, files, alone):
    if "limit" in LACKS.get(command, ()):
        return
    some = json.loads(ok(command, *files, "-n", "1", "--format", "json"))
    holds(command, "-n", len(some) == min(1, len(alone)) and (command == "top" or some == alone[:1]), some)
    if len(alone) > 1 and command not in ("events", "top"):
        holds(command, "-n tells what is left", re.search(r"\d+ further (rows|frames)", ok(command, *files, "-n", "1")) is not None)


def bounded(command, path):
    """In 64 MiB, with progress on a terminal that is wiped."""
    said, (terminal, slave) = [], pty.openpty()

    def listen():
        try:
            while data := os.read(terminal, 4096):
                said.append(data.decode(errors="replace"))
        except OSError:  # closed
            pass
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen([ETL, command, path], stdout=nowhere, stderr=slave)
    os.close(slave)
    listener = threading.Thread(target=listen)
    listener.start()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    listener.join()
    os.close(terminal)
    text = "".join(said)
    holds(command, "progress", "events (" in text and " % " in text and "\033[K" in text, text[-200:])
    if os.environ.get("PROCFLEET_SANITIZED") != "1":
        holds(command, "64 MiB", status == 0 and usage.ru_maxrss <= RESIDENT_MAX, usage.ru_maxrss)


def refusals(command):
    for path, why in (("-", "standard input"), (corpus("public"), "is a directory"), (os.path.abspath(__file__), "")):
        r = run(command, path)
        ensure("%s: %s is refused" % (command, os.path.basename(path)), r.returncode in (1, 2) and why in r.stderr and "procfleet-etl: " in r.stderr, r)
    r = run(command)
    holds(command, "without a file", r.returncode == 2 and "FILE... is needed" in r.stderr, r)


def parts_add_up():
    """What was counted before a moment and from it on is what was counted at all, instance by instance."""
    path, key = recording("net.4.5.2.x64"), lambda r: (r["pid"], r.get("create_time"), r.get("name"))
    want = {key(r): r for r in json.loads(ok("processes", path, "--format", "json"))}
    figures = ("samples", "disk_read_bytes", "hard_faults", "stacks", "image_loads", "clr_alloc", "cpu_time")
    sums = {}
    cut = "2020-07-29T00:07:04.123456789Z"
    for args in (["--until", cut], ["--since", "2020-07-29T00:07:04.123456790Z"]):
        for r in json.loads(ok("processes", path, *args, "--format", "json")):
            for f in figures:
                sums[key(r), f] = sums.get((key(r), f), 0) + int(r.get(f, 0))
    wrong = [(k, f, int(r.get(f, 0)), sums.get((k, f), 0)) for k, r in want.items() for f in figures if int(r.get(f, 0)) != sums.get((k, f), 0)]
    check("figures of two parts are those of the whole", wrong, [])
    ensure("there is something to add", sum(sums.values()) > 10**9, len(sums))
    threads = [json.loads(ok("threads", path, *a, "--format", "json")) for a in ([], ["--until", cut], ["--since", "2020-07-29T00:07:04.123456790Z"])]
    counted = [sum(int(r.get("samples", 0)) for r in t) for t in threads]
    check("samples of threads, too", counted[1] + counted[2], counted[0])


def cuts_add_up():
    """Time on a CPU, ready and waiting, cut in the middle: to the tick, of processes and threads."""
    def switch(ms, new, old, state):
        return made.system(ms, 5, 36, struct.pack("<IIbbBbbbbbII", new, old, 8, 8, 0, 0, 0, 0, state, 0, 1, 0), version=2)

    def ready(ms, tid):
        return made.system(ms, 5, 50, struct.pack("<IbbBB", tid, 0, 0, 0, 0), version=2)
    path = made.write(os.path.join(room.name, "switches.etl"), [
        made.process(0, 3, 100, 4, "a.exe"), made.process(0, 3, 200, 4, "b.exe"), made.thread(0, 3, 100, 11), made.thread(0, 3, 200, 22),
        switch(1, 11, 0, 1), switch(4, 22, 11, 5), ready(7, 11), switch(11, 11, 22, 5), switch(16, 0, 11, 5), ready(20, 22), switch(22, 22, 0, 1),
        switch(29, 0, 22, 5)])
    figures = ("run", "ready", "wait")

    def asked(command, *args):
        return {(r["pid"], f): int(r.get(f, 0)) for r in json.loads(ok(command, path, *args, "--format", "json")) if r["pid"] for f in figures}
    whole = asked("processes")
    check("the whole", {k: v // 10**6 for k, v in whole.items()}, {(100, "run"): 8, (100, "ready"): 4, (100, "wait"): 3, (200, "run"): 14, (200, "ready"): 2,
                                                                  (200, "wait"): 9})
    for cut in (2.5, 5, 9.25, 18, 21, 25):
        for command, keys in (("processes", figures), ("threads", ("run",))):
            before, after, all_of = asked(command, "--until", str(cut)), asked(command, "--since", str(cut)), asked(command)
            sums = {k: before.get(k, 0) + after.get(k, 0) for k in all_of if k[1] in keys}
            got, want = {k: sums[k] for k in sums if k[1] == "run"}, {k: v for k, v in all_of.items() if k[1] == "run"}
            check("%s: time on a CPU before and after %g ms" % (command, cut), got, want)
            if command == "processes":  # what waits at the end of all is open there, and counts up to a cut
                ensure("waiting and ready, too", all(sums[k] >= all_of[k] for k in sums), (sums, all_of))
    part = asked("processes", "--since", "5", "--until", "9.25")
    check("a part: cut at both ends", {k: v for k, v in part.items() if v}, {(200, "run"): 4250000, (100, "wait"): 2000000, (100, "ready"): 2250000})


if __name__ == "__main__":
    names = commands()
    for name in names:  # first, while this process is small: a child's memory begins with its parent's
        has_options(name)
        if name not in ALONE:
            bounded(name, recording("net.4.5.x86-win7"))
    for name in names:
        source = recording(ASKS.get(name) or ANY)
        given = [] if name in ALONE else [source]
        everything = formats(name, given)
        limited(name, given, everything)
        if name in ALONE:
            continue
        several(name, source, everything)
        merged(name)
        ranged(name, source, everything)
        refusals(name)
    parts_add_up()
    cuts_add_up()
    for name, row in table.items():
        print("%-10s %s" % (name, ", ".join(sorted(row))))
