"""procfleet-agent etl over real recordings: figures as computed independently, filters, formats, errors, exit codes."""

import csv
import datetime
import fnmatch
import glob
import io
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from fleet import BIN, check, corpus, ensure, read_json

AGENT = os.path.join(BIN, "procfleet-agent")
EXPECTED = corpus("expected")
PUBLIC = corpus("public")

# Where our figures are better than the expected ones, or the recording is hostile: name (glob), path, ours, theirs, reason.
BY_IRP = "a version 2 request belongs to who issued it (by IRP), not to the context it completed in"
NULL_SID = "a SID behind a null TOKEN_USER pointer is believed, and what follows it is then found"
WRONG_SIZE = "64-bit payloads under 32-bit headers: a record whose SID is none is refused and counted as undecodable"
NOTEPAD = "S-1-5-21-753675414-103939432-3550797041-1000"
DIFFERENCES = [
    ("net.4.5.x86-win7", "disk.write_bytes_by_pid.4", 26011648, 25995264, BY_IRP),
    ("net.4.5.x86-win7", "disk.write_bytes_by_pid.436", None, 16384, BY_IRP),
    ("net.4.5.x86-win7", "disk.writes_by_pid.4", 470, 469, BY_IRP),
    ("net.4.5.x86-win7", "disk.writes_by_pid.436", None, 1, BY_IRP),
    ("sawbuck/process_data_32_v1.*", "processes.0.sid", NOTEPAD, None, NULL_SID),
    ("sawbuck/process_data_32_v1.*", "processes.0.image", "notepad.exe", "", NULL_SID),
]
for version in "23":
    name = "sawbuck/process_data_32_v%s.*" % version
    for at, sid, image in ((0, "S-1-5-18", "Idle"), (1, "S-1-5-18", "System"), (2, "S-1-5-18", "smss.exe"),
                           (3, NOTEPAD, "notepad.exe")):
        DIFFERENCES.append((name, "processes.%d.sid" % at, sid, None, NULL_SID))
        DIFFERENCES.append((name, "processes.%d.image" % at, image, "", NULL_SID))
    DIFFERENCES.append((name, "processes.2.cmdline", "\\SystemRoot\\System32\\smss.exe", "", NULL_SID))
    DIFFERENCES.append((name, "processes.3.cmdline", '"C:\\Windows\\system32\\notepad.exe" ', "", NULL_SID))
HOSTILE = [  # whole members of figures that differ: ours is given, theirs is a garbled process 0
    ("sawbuck/process_data_64_v2.*", "undecodable", [{"k": "('process', 2)", "n": 7}], WRONG_SIZE),
    ("sawbuck/process_data_64_v2.*", "residual_bytes", [{"k": "('process', 2, 123)", "n": 1}], WRONG_SIZE),
    ("sawbuck/process_data_64_v2.*", "processes", 1, WRONG_SIZE),  # one of the 8 records is read
]


def run(*args, expect=0, text=True):
    """Runs the tool, checks its exit code, gives standard output and error."""
    r = subprocess.run([AGENT, "etl", *args], capture_output=True, timeout=240, check=False)
    if expect is not None and r.returncode != expect:
        print("FAILED: etl %s: exit code %d, expected %d\n%s" % (" ".join(map(str, args)), r.returncode, expect, r.stderr.decode()))
        sys.exit(1)
    return (r.stdout.decode() if text else r.stdout), r.stderr.decode(errors="replace")


def recording(name):
    path = os.path.join(PUBLIC, name + ".etl")
    return path if os.path.exists(path) else path + ".xz"


def summary(*paths):
    text = run("summary", "--format", "json", *paths)[0]
    ensure("no number exceeds 2^53", not [w for w in re.findall(r"[\[ ](-?\d{16,})", text) if abs(int(w)) > 2**53])
    return json.loads(text)


def events(*args):
    return [json.loads(line) for line in run("events", "--format", "jsonl", *args)[0].splitlines()]


# -- figures --

def close(key, ours, theirs):
    """Equal, or times within a microsecond as the corpus README says."""
    if ours == theirs or (isinstance(theirs, int) and ours == str(theirs)):  # digits: beyond 2^53, or such as may well be
        return True
    if ours is None or theirs is None:
        return False
    if key.endswith("relms"):
        return abs(ours - theirs) < 0.0015
    if key.endswith("_utc") or key in ("start_time", "end_time"):
        a, b = (datetime.datetime.strptime(t, "%Y-%m-%dT%H:%M:%S.%fZ") for t in (ours, theirs))
        return abs(a - b) <= datetime.timedelta(microseconds=1)
    return False


def compare(path, ours, theirs):
    """Yields (path, ours, theirs) of everything that differs; lists of kinds are compared without their order."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from compare(path + [key], ours.get(key), theirs.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and path[0] in ("by_event", "residual_bytes"):
        a, b = (sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (ours, theirs))
        if a != b:
            yield path, ours, theirs
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from compare(path + [str(i)], a, b)
    elif not close(path[-1], ours, theirs):
        yield path, ours, theirs


def fits(pattern, name):
    return fnmatch.fnmatch(name, pattern)


def known(name, ours, theirs, used):
    """Takes the listed differences out of what was found; what is left is a failure."""
    left = []
    hostile = {row[1]: row for row in HOSTILE if fits(row[0], name)}
    for path, a, b in compare([], ours, theirs):
        at = ".".join(path)
        if path[0] in hostile:
            value = hostile[path[0]][2]
            got = ours[path[0]]
            if (len(got) if isinstance(value, int) else got) == value:
                used.add(hostile[path[0]][:2])
                continue
        for row in DIFFERENCES:
            if fits(row[0], name) and row[1] == at and (a, b) == row[2:4]:
                used.add(row[:2])
                break
        else:
            left.append("%s: ours %r, expected %r" % (at, a, b))
    return left


def figures():
    used = set()
    paths = sorted(glob.glob(EXPECTED + "/*.json") + glob.glob(EXPECTED + "/sawbuck/*.json"))
    for path in paths:
        name = os.path.relpath(path, EXPECTED)[:-5]
        with open(path, encoding="utf-8") as f:
            theirs = json.load(f).get("figures")
        if theirs is None:  # of another subject
            continue
        ours = summary(recording(name))
        own = ours.pop("procfleet")
        theirs["file"] = os.path.basename(theirs["file"])
        missing = known(name, ours, theirs, used)
        if missing:
            print("FAILED: %s\n  %s" % (name, "\n  ".join(missing[:20])))
            sys.exit(1)
        attribution(name, ours, own)
        over = own["over_limits"]
        ensure("%s: %d figures agree, nothing over a limit" % (name, len(theirs)), not any(over.values()), over)
    ensure("all %d recordings were compared" % len(paths), len(paths) >= 56)
    for row in DIFFERENCES + HOSTILE:
        ensure("listed difference exists: %s %s (%s)" % (row[0], row[1], row[-1]), row[:2] in used)


def attribution(name, ours, own):
    """What instances were charged with is what the figures say of their numbers, as far as one is known."""
    pairs = {"samples": ours["samples_by_pid"], "disk_reads": ours["disk"]["reads_by_pid"],
             "disk_write_bytes": ours["disk"]["write_bytes_by_pid"], "hard_faults": ours["hardfaults_by_pid"],
             "hard_fault_bytes": ours["hardfault_bytes_by_pid"]}
    for tally, by_pid in pairs.items():
        charged = {}
        for i in own["instances"]:
            if i.get(tally):
                charged[str(i["pid"])] = charged.get(str(i["pid"]), 0) + i[tally]
        if charged != by_pid:
            print("FAILED: %s: %s charged %r, by number %r" % (name, tally, charged, by_pid))
            sys.exit(1)


# -- events --

def count(figures_, **key):
    return sum(e["count"] for e in figures_["by_event"] if all(e[k] == v for k, v in key.items()))


def network():
    """Microsoft-Windows-Kernel-Network: bytes belong to the pid of the payload."""
    with open(os.path.join(EXPECTED, "manifest-tx-KernelNetwork.json"), encoding="utf-8") as f:
        want = json.load(f)["per_payload_pid"]
    rows = json.loads(run("processes", recording("tx-KernelNetwork"), "--format", "json")[0])
    ours = {}
    for row in rows:
        sums = {k: row.get(k, 0) for k in ("tcp_send", "tcp_recv", "udp_send", "udp_recv")}
        if any(sums.values()):
            ours[str(row["pid"])] = sums
    theirs = {}
    for pid, sums in want.items():
        def of(kind, way, sums=sums):
            return sum(sums.get("%s%d_%s_bytes" % (kind, v, way), 0) for v in (4, 6))
        theirs[pid] = {"tcp_send": of("tcp", "sent"), "tcp_recv": of("tcp", "received"),
                       "udp_send": of("udp", "sent"), "udp_recv": of("udp", "received")}
    check("bytes of Kernel-Network by process", ours, theirs)


def filters():
    path = recording("gc-dynamic-events")
    all_of = summary(path)
    thread = "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"
    rows = events(path, "--provider", thread)
    check("a provider by GUID", len(rows), all_of["by_provider"][thread])
    check("by GUID in braces, upper case", len(events(path, "--provider", "{%s}" % thread.upper())), len(rows))
    check("a provider by name", len(events(path, "--provider", "Thread")), len(rows))
    check("by glob", len(events(path, "--provider", "Thr*d")), len(rows))
    starts = events(path, "--provider", "Thread", "--event", "Start")
    check("an event by name", len(starts), all_of["kernel_counts"]["thread_start"])
    check("by opcode", len(events(path, "--provider", "Thread", "--event", "1")), len(starts))
    check("of a process", len(events(path, "--provider", "Thread", "--event", "1", "--pid", "7608")),
          all_of["threads"]["started_by_pid"]["7608"])
    tid = starts[0]["tid"]
    ensure("of a thread", all(tid in (r["tid"], r.get("header_tid")) for r in events(path, "--tid", str(tid))))
    ensure("values have names", all({"ProcessId", "TThreadId"} <= r["fields"].keys() for r in starts))
    check("nothing matches", events(path, "--event", "NoSuchEvent"), [])
    check("a limit", len(events(path, "--limit", "7")), 7)


def times():
    path = recording("net.4.5.2.x64")
    rows = events(path, "--since", "2733.1748", "--until", "2733.1758", "--provider", "*Process")
    check("within a microsecond", [(r["provider"], r["pid"]) for r in rows],
          [("Microsoft-Windows-Kernel-Process", 3676), ("Process", 3676)])
    utc = events(path, "--since", "2020-07-29T00:07:03.3567Z", "--until", "2020-07-29T00:07:03.3568Z", "--provider",
                 "Process")
    check("between two times of day", [(r["event"], r["process"], r["header_pid"]) for r in utc],
          [("Start", "Test.x64.exe", 3508)])
    check("a span", len(events(path, "--since", "8s", "--provider", "Process", "--event", "End")), 1)
    sample = events(path, "--event", "46", "--provider", "PerfInfo", "--limit", "1")[0]
    ensure("a sample without ids in its header has its thread's process", "process" in sample and "pid" in sample)


TMF = """// PDB:  cldflt.pdb
2818ef08-6a54-396f-2244-5a6ea4a98cf0 CldFlt // SRC=stream.c MJ= MN=
#typev stream_c43 43 "%0Stream %10!p! of %11!p! status %12!x!" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=0x1 FUNC=HsmOpen
{
Arg, ItemPtr -- 10
Arg, ItemPtr -- 11
Arg, ItemLong -- 12
}
"""


def messages(room):
    """WPP: by header alone, and by the text a message file gives (this one is made up, the payloads are real)."""
    path = recording("CldFlt0")
    rows = [r for r in events(path) if r["kind"] == "wpp"]
    check("WPP messages by header", (len(rows), {r["id"] for r in rows}, {r["guid"] for r in rows}),
          (13, {43}, {"2818ef08-6a54-396f-2244-5a6ea4a98cf0"}))
    with open(os.path.join(room, "cldflt.tmf"), "w", encoding="ascii") as f:
        f.write(TMF)
    rows = [r for r in events(path, "--tmf", room) if r["kind"] == "wpp"]
    ensure("with a message file by text", all("status c01c000f" in r["fields"]["Message"] for r in rows))
    ensure("members of one name stay apart", {"Arg", "Arg#2", "Arg#3"} < rows[0]["fields"].keys())


def formats():
    path = recording("net.4.5.2.x64")
    args = ["--provider", "Image", "--event", "Load"]
    lines = events(path, *args)
    array = json.loads(run("events", path, *args, "--format", "json")[0])
    check("JSON is an array of what JSON lines are", array, lines)
    rows = list(csv.DictReader(io.StringIO(run("events", path, *args, "--format", "csv")[0])))
    check("CSV has the same times", [r["ms"] for r in rows], ["%.6f" % r["ms"] for r in lines])
    ensure("and names every field", all("FileName=" in r["fields"] for r in rows))
    big = ["--event", "GCBulkMovedObjectRanges"]  # an array of 4,080 structs: 266 KB of text
    csv.field_size_limit(1 << 24)
    rows = list(csv.DictReader(io.StringIO(run("events", path, *big, "--format", "csv")[0], newline="")))
    check("a row may be as large as it is", [r["fields"].count("OldRangeBase") for r in rows],
          [len(r["fields"]["Values"]) for r in events(path, *big)])
    check("text has a line each", len(run("events", path, *args)[0].splitlines()), len(lines))
    for command in ("processes", "threads", "top"):
        array = json.loads(run(command, path, "--format", "json")[0])
        rows = list(csv.DictReader(io.StringIO(run(command, path, "--format", "csv")[0], newline="")))
        check("%s: CSV has the rows of JSON" % command, [r["pid"] for r in rows], [str(r["pid"]) for r in array])
        lines = [json.loads(line) for line in run(command, path, "--format", "jsonl")[0].splitlines()]
        check("%s: JSON lines too" % command, lines, array)
        ensure("%s: a table" % command, len(run(command, path)[0].splitlines()) == len(array) + 1)
    info = json.loads(run("info", path, "--format", "json")[0])
    check("info counts what the summary counts", {p["guid"]: p["records"] for p in info["providers"]},
          summary(path)["by_provider"])
    check("info --header reads no record", "records" in json.loads(run("info", "--header", path, "--format", "json")[0]),
          False)


def top():
    path = recording("net.4.5.2.x64")
    rows = read_json(run("top", path, "--format", "json")[0])
    check("most CPU time", (rows[0]["pid"], rows[0]["name"], rows[0]["cpu_time"], rows[0]["cpu_time_origin"]),
          (3676, "Test.x64.exe", 5106 * 10**6, "samples"))
    ensure("idle is hidden", all(r["pid"] for r in rows))
    check("unless asked for", json.loads(run("top", path, "--idle", "-n", "1", "--format", "json")[0])[0]["pid"], 0)
    rows = json.loads(run("top", path, "--by", "disk_read_bytes", "-n", "2", "--format", "json")[0])
    check("most read from disk", [(r["pid"], r["disk_read_bytes"]) for r in rows], [(1632, 16936960), (3676, 1755648)])
    rows = json.loads(run("top", path, "--by", "hard_faults", "-n", "1", "--format", "json")[0])
    check("most hard faults", rows[0]["hard_faults"], summary(path)["hardfaults_by_pid"]["3676"])


def nothing():
    """What is not recorded is absent, and an empty answer has a reason."""
    no_kernel, threads_only, samples = recording("powershell"), recording("gc-dynamic-events"), recording("net.4.5.2.x64")
    for args, word in ((["processes", no_kernel], "no processes are recorded"), (["threads", no_kernel], "no threads are recorded"),
                       (["top", threads_only], "nothing is recorded about cpu_time"),
                       (["processes", threads_only, "--pid", "7609"], "none of 100 processes matches"),
                       (["threads", threads_only, "--pid", "7609"], "none of 1219 threads matches"),
                       (["events", threads_only, "--provider", "Thraed"], "none of 28693 records matches")):
        ensure("%s: %s" % (args[0], word), word in "".join(run(*args)))
    row = json.loads(run("processes", threads_only, "--pid", "7608", "--format", "json")[0])
    check("one process by its id", [(r["pid"], r["name"], r["threads_started"]) for r in row],
          [(7608, "Benchmarks.exe", summary(threads_only)["threads"]["started_by_pid"]["7608"])])
    ensure("without figures nobody recorded", not {"cpu_time", "samples", "switches_in", "run", "disk", "net", "soft_faults"} & row[0].keys())
    row = json.loads(run("processes", samples, "--pid", "3676", "--format", "json")[0])[0]
    ensure("samples do not tell switches", row["samples"] == 5129 and not {"switches_in", "run", "wait", "ready"} & row.keys())
    ensure("a summary says that processes are not recorded", "processes not recorded" in run("summary", no_kernel)[0])
    ensure("and lists those that used most only where something tells", " COMMAND" not in run("summary", threads_only)[0])
    images = run("summary", "--merge", recording("diaghub.kernel.1"), recording("diaghub.user_injected.1"))[0]
    ensure("without CPU time by what there is", "diaghub.kernel.1.etl.xz and 1 more" in images and
           images.splitlines()[-2].split()[:2] == ["2140", "locProject.exe"], images)


# -- files --

def files(room):
    packed = recording("net.4.5.2.x64")
    plain = os.path.join(room, "net.4.5.2.x64.etl")
    with lzma.open(packed) as source, open(plain, "wb") as target:
        shutil.copyfileobj(source, target)
    a, b = summary(packed), summary(plain)
    for s in (a, b):
        del s["procfleet"]["files"]
    check("xz equals plain", a, b)
    small = recording("hw3d")
    both = json.loads(run("summary", "--format", "json", small, plain)[0])
    check("several files are several objects", [s["file"] for s in both], ["hw3d.etl", "net.4.5.2.x64.etl"])
    lines = run("summary", "--format", "jsonl", small, plain)[0].splitlines()
    check("a line each", [json.loads(line)["file"] for line in lines], ["hw3d.etl", "net.4.5.2.x64.etl"])
    merged = summary("--merge", recording("diaghub.kernel.1"), recording("diaghub.user_injected.1"))
    check("merged they are one", merged["events_total"], 16335 + 4)
    check("that names its files", len(merged["procfleet"]["files"]), 2)
    rows = json.loads(run("processes", "--format", "json", small, plain)[0])
    check("rows name their file", {r["file"] for r in rows}, {plain})
    out, err = run("top", os.path.join(room, "none.etl"), plain, expect=1)
    ensure("a file that is missing does not hide the others", "Test.x64.exe" in out and "none.etl" in err)
    cut = os.path.join(room, "cut.etl")
    with open(plain, "rb") as source, open(cut, "wb") as target:
        target.write(source.read(os.path.getsize(plain) // 2 + 12345))
    s = summary(cut)
    ensure("a file cut in the middle is read up to there, and says so",
           0 < s["events_total"] < a["events_total"] and s["notes_count"] > 0 and s["procfleet"]["loss"]["damaged"] > 0)
    return plain


def odd_names(room):
    """A file's name may be any bytes; what is printed is UTF-8 and no steering."""
    odd = os.path.join(os.fsencode(room), b"z\xff\x1b[31m.etl")
    shutil.copyfile(recording("gc-dynamic-events"), odd)
    for command in ("info", "summary", "processes", "threads", "events", "top"):
        for form in ("table", "json", "jsonl"):
            args = [command, "--format", form, odd] + (["--limit", "1"] if command in ("events", "top") else [])
            out = run(*args)[0]
            ensure("%s as %s of a file with an odd name" % (command, form), "\x1b" not in out)


def errors(room, plain):
    text = os.path.join(room, "text.etl")
    with open(text, "w", encoding="ascii") as f:
        f.write("no trace\n" * 1000)
    open(os.path.join(room, "empty.etl"), "wb").close()
    for code, args, word in ((1, ["info", text], "not an event trace"), (1, ["summary", os.path.join(room, "empty.etl")], ""),
                             (1, ["events", os.path.join(room, "missing.etl")], "missing.etl"),
                             (2, ["info", room], "directory"), (2, ["info", "-"], "standard input"), (2, ["info"], "FILE"),
                             (2, ["nonsense", plain], "nonsense"), (2, [], ""), (2, ["top", "--by", "cpu_tim", plain], "cpu_time"),
                             (2, ["events", plain, "--since", "yesterday"], "since"), (2, ["events", plain, "--pid", "x"], "pid"),
                             (2, ["events", plain, "--limit", "-1"], "limit"),
                             (2, ["events", plain, "--since", "2s", "--until", "1500"], "before"),
                             (2, ["threads", plain, "--pid", "4294967296"], "pid"),
                             (2, ["summary", plain, "--format", "xml"], "xml"), (2, ["events", plain, "--bogus"], "bogus"),
                             (1, ["events", plain, "--tmf", os.path.join(room, "nowhere")], "nowhere")):
        out, err = run(*args, expect=code)
        ensure("exit code %d: %s" % (code, " ".join(args)), word in err and (err or out))
    for command in ("info", "summary", "processes", "threads", "events", "top"):
        ensure("%s --help has examples" % command, "Examples:" in run(command, "--help")[0])
    ensure("etl --help lists them", "threads" in run("--help")[0])


def alone(room):
    """The agent without the program that reads recordings."""
    agent = shutil.copy(AGENT, room)
    r = subprocess.run([agent, "etl", "info", "x"], capture_output=True, timeout=60, check=False)
    ensure("without procfleet-etl beside it the agent says so, and what to do",
           r.returncode == 1 and b"procfleet-etl cannot be started: not found" in r.stderr and b"install" in r.stderr, r)


def pipes(plain):
    p = subprocess.Popen([AGENT, "etl", "events", plain], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    err = p.stderr.read()
    check("a reader that goes away is no failure, and no word is lost about it", (p.wait(timeout=60), err), (0, b""))
    with open("/dev/full", "wb") as full:
        r = subprocess.run([AGENT, "etl", "summary", plain], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    ensure("a full disk is one", r.returncode == 1 and r.stderr)
    # It waits for its reader after 64 KiB, so the signal arrives in the middle.
    p = subprocess.Popen([AGENT, "etl", "events", "--format", "jsonl", plain], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = p.stdout.readline()
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    ensure("Ctrl-C ends it in the middle, with a note", p.returncode == 5 and b"stopped" in err, (p.returncode, err))
    lines = (first + out).splitlines()
    ensure("what was printed is whole", len(lines) < 179474 and json.loads(lines[-1])["ms"] > 0)


corpus("expected")
figures()
network()
filters()
times()
formats()
top()
nothing()
with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as directory:
    unpacked = files(directory)
    messages(directory)
    odd_names(directory)
    errors(directory, unpacked)
    alone(directory)
    pipes(unpacked)
sys.exit(0)
