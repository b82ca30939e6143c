"""Questions to recordings: http, tcp, files, modules, dns, rpc, providers, tree, marks, crashes; against figures computed independently, against what
`events` shows, and on recordings made up here."""

import collections
import csv
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import etl_file as made
from fleet import BIN, check, corpus, ensure, read_json

ETL = os.path.join(BIN, "procfleet-etl")
PUBLIC, EXPECTED = corpus("public"), corpus("expected")
CRASH = 0xC0000005 - 2**32
in_all_formats = collections.Counter()


def recording(name):
    path = os.path.join(PUBLIC, name + ".etl")
    return path if os.path.exists(path) else path + ".xz"


def run(*args, expect=0):
    r = subprocess.run([ETL, *args], capture_output=True, text=True, timeout=120, check=False)
    if r.returncode != expect:
        ensure("etl %s gives %d" % (" ".join(args), expect), False, (r.returncode, r.stderr))
    return r.stdout


def rows(*args):
    """As JSON; JSONL and CSV of a command say the same, which is asked twice of each."""
    text = run(*args, "--format", "json")
    found = json.loads(text)
    in_all_formats[args[0]] += 1
    if in_all_formats[args[0]] > 2:
        return read_json(text)
    lines = [json.loads(line) for line in run(*args, "--format", "jsonl").splitlines()]
    table = list(csv.DictReader(io.StringIO(run(*args, "--format", "csv"))))
    if found != lines or [{k: v for k, v in r.items() if v != ""}.keys() for r in table] != [r.keys() for r in found]:
        ensure("%s: the formats say the same" % args[0], False, (found[:2], lines[:2], table[:2]))
    return read_json(text)


def events(path, *args):
    return [json.loads(line) for line in run("events", path, "--format", "jsonl", *args).splitlines()]


def http():
    path = recording("tx-HTTP_Server")
    by_id, parsed, urls, status = {}, {}, collections.Counter(), collections.Counter()
    moments, took = {}, collections.defaultdict(lambda: ([], []))
    for r in events(path, "--provider", "Microsoft-Windows-HttpService"):
        f = r["fields"]
        moments[r["id"] if r["id"] < 10 else 10, f.get("RequestId")] = float(r["ms"]) * 1e6
        if r["id"] == 2:
            parsed[f["RequestObj"]] = f["Url"]
        elif r["id"] == 3:
            by_id[f["RequestId"]] = parsed[f["RequestObj"]]
            urls[by_id[f["RequestId"]]] += 1
        elif r["id"] in (4, 8):
            status[by_id[f["RequestId"]], f["StatusCode"]] += 1
    found = rows("http", path)
    for request, url in by_id.items():
        for times, number in zip(took[url], (3, 10)):
            times.append(moments[number, request] - moments[1, request])
    for r in found:
        for name, times in zip(("deliver", "answer"), took[r["url"]]):
            for percent in (50, 99):
                at, ours = sorted(times)[-(-len(times) * percent // 100) - 1], int(r.get("%s_p%d" % (name, percent), 0))
                ensure("http: %s, %d %%, to a class" % (name, percent), at - 1000 <= ours <= max(1.25 * at, at + 1250), (r, at))
    check("http: requests by URL", {r["url"]: r["requests"] for r in found}, dict(urls))
    check("http: all 291 of them", sum(r["requests"] for r in found), 291)
    check("http: statuses", {(r["url"], int(s.split(":")[0])): int(s.split(":")[1]) for r in found for s in r["status"].split()},
          dict(status))
    check("http: each was sent", sum(r["not_sent"] for r in found), 0)
    check("http: another process answered none", rows("http", path, "--pid", "1"), [])


def cached(room):
    """Answers of HTTP.sys' own cache: by the request's id, or in version 0 by its object alone."""
    guid = "dd5ef90a-6398-47a4-ad34-4dcecdef795f"

    def one(ms, request, thing, number, version, end):
        address = struct.pack("<I", 0)
        return [made.event(ms, guid, 1, struct.pack("<QQ", request, 1) + address, tid=request),
                made.event(ms + 1, guid, 2, struct.pack("<QI", thing, 4) + made.wide("http://h/%d" % request), tid=request),
                made.event(ms + 2, guid, number, struct.pack("<QII", thing, 1, 99) + end, version=version, tid=3)]
    path = made.write(os.path.join(room, "cached.etl"), one(1, 11, 0x100, 16, 0, b"") + one(5, 12, 0x200, 16, 1, struct.pack("<Q", 12) + b"gzip\0") +
                      one(10, 13, 0x300, 17, 0, b"") + one(15, 14, 0x400, 16, 0, b"")[:2])
    check("http: answered by the cache", [(r["url"], r.get("status"), r["requests"], r["not_sent"]) for r in rows("http", path)],
          [("http://h/11", "200:1", 1, 0), ("http://h/12", "200:1", 1, 0), ("http://h/13", "304:1", 1, 0), ("http://h/14", None, 1, 1)])


def limits():
    """At most so many rows of each recording, the rest is told."""
    for name, *args in (("diaghub.kernel.1", "providers"), ("diaghub.kernel.1", "modules"), ("diaghub.kernel.1", "tree"),
                        ("gcevents", "clr", "--what", "events"), ("gc-dynamic-events", "threads")):
        path = recording(name)
        everything = json.loads(run(*args, path, "--format", "json"))
        check("%s: the first two" % args[0], json.loads(run(*args, path, "-n", "2", "--format", "json")), everything[:2])
        check("%s: of each recording" % args[0], json.loads(run(*args, path, path, "-n", "2", "--format", "json")), everything[:2] * 2)
        ensure("%s: the others are told" % args[0], "%d further rows (--limit)" % (len(everything) - 2) in run(*args, path, "-n", "2"))
    for command in ("tcp", "http", "dns", "rpc", "marks"):
        check("%s -n" % command, json.loads(run(command, recording("tx-HTTP_Server"), "-n", "1", "--format", "json"))[1:], [])


def tcp():
    path = recording("tx-KernelNetwork")
    with open(os.path.join(EXPECTED, "manifest-tx-KernelNetwork.json"), encoding="utf-8") as f:
        want = json.load(f)["per_payload_pid"]
    sums = collections.defaultdict(lambda: [0, 0])
    for r in rows("tcp", path):
        sums[str(r["pid"])][0] += r["sent"]
        sums[str(r["pid"])][1] += r["received"]
    theirs = {pid: [sum(v.get("tcp%d_%s_bytes" % (n, way), 0) for n in (4, 6)) for way in ("sent", "received")]
              for pid, v in want.items()}
    check("tcp: bytes by process", {k: v for k, v in sums.items() if any(v)}, {k: v for k, v in theirs.items() if any(v)})
    ends = {(r["remote"], r["ended"]) for r in rows("tcp", path, "--pid", "4") if r.get("ended")}
    check("tcp: how one ended", ends, {("[2001:4898:0:fff:200:5efe:9d36:2188]:445", "disconnect")})


def providers():
    for name in ("net.4.5.2.x64", "pktmon-demikernel"):
        path = recording(name)
        summary = read_json(run("summary", path, "--format", "json"))
        found = rows("providers", path)
        check("providers of %s: all records" % name, sum(r["records"] for r in found), summary["events_total"])
        ensure("providers of %s: the most frequent first" % name,
               [r["records"] for r in found] == sorted((r["records"] for r in found), reverse=True))
    path = recording("waasmedic.20251005_113019_195")
    theirs = collections.Counter(r["event"] for r in events(path, "--provider", "Microsoft.Windows.WaaSMedic.Local"))
    found = rows("providers", path, "--provider", "Microsoft.Windows.WaaSMedic.Local")
    check("providers: events of TraceLogging by name", {r["event"]: r["records"] for r in found}, dict(theirs))
    found = rows("providers", recording("pktmon-demikernel"), "--provider", "Microsoft-Windows-PktMon")
    check("only of one provider", {r["provider"] for r in found}, {"Microsoft-Windows-PktMon"})
    check("and its packets", [r["records"] for r in found if r["id"] == 160], [114])


def tree():
    path = recording("diaghub.kernel.1")
    found, processes = rows("tree", path), rows("processes", path)
    check("tree: every process once", sorted((r["pid"], r.get("start_time", "")) for r in found),
          sorted((r["pid"], r.get("create_time", "")) for r in processes))
    for name in ("net.4.5.x86-win7", "diaghub.kernel.1"):
        times = [sorted((r["pid"], r["name"], int(r.get("cpu_time", 0))) for r in rows(c, recording(name))) for c in ("tree", "processes")]
        check("tree: CPU time as of processes in %s" % name, times[0], times[1])
    above = []
    for r in found:
        del above[r["depth"]:]
        if above and r["parent_pid"] != above[-1]:
            ensure("a child stands below its parent", False, r)
        above.append(r["pid"])
    ensure("tree: there are children", max(r["depth"] for r in found) >= 2)


def made_up(room):
    path = made.write(os.path.join(room, "made.etl"), [
        made.process(0, 3, 10, 0, "services.exe", "services.exe"), made.process(1, 1, 100, 10, "app.exe", "app.exe -x"),
        made.process(2, 1, 101, 100, "child.exe"), made.system(3, 0xF, 34, b"begin\0", version=0, pid=100),
        made.process(4, 1, 102, 100, "WerFault.exe", "C:\\w\\WerFault.exe -u -p 101 -s 4"),
        made.process(5, 2, 101, 100, "child.exe", status=1), made.system(6, 0xF, 34, b"the end", version=0, pid=100),
        made.process(7, 2, 100, 10, "app.exe", status=CRASH), made.process(8, 1, 103, 10, "quick.exe"),
        made.process(9, 2, 103, 10, "quick.exe", status=-1)])
    check("tree", [(r["pid"], r["depth"]) for r in rows("tree", path)], [(10, 0), (100, 1), (101, 2), (102, 2), (103, 1)])
    check("tree at a moment", [r["pid"] for r in rows("tree", path, "--at", "5.5")], [10, 100, 102])
    check("who crashed", [(r["pid"], r.get("status"), r.get("reported_by")) for r in rows("processes", path, "--crashed")],
          [(100, "ACCESS_VIOLATION", None), (101, None, 102)])
    check("marks", [(r["text"], r["ms"], r["pid"]) for r in rows("marks", path)], [("begin", "3.000000", 100), ("the end", "6.000000", 100)])
    between = events(path, "--since", "mark:begin", "--until", "mark:the*")
    check("between two marks, whose first is zero", [float(r["ms"]) for r in between], [0, 1, 2, 3])
    check("up to a mark", len(events(path, "--until", "mark:begin")), 5)
    check("a mark that does not come", events(path, "--since", "mark:never"), [])
    for args, word in ((["tree", path, "--at", "mark:begin"], "mark"), (["tcp", path, "--since", "soon"], "since")):
        r = subprocess.run([ETL, *args], capture_output=True, text=True, timeout=60, check=False)
        ensure("%s is refused" % args[-1], r.returncode == 2 and word in r.stderr, r)
    both = read_json(run("marks", path, path, "--format", "json"))
    check("of two files", [r["file"] for r in both], [path] * 4)
    network = recording("tx-KernelNetwork")
    check("as one recording with the kernel's file", len(rows("tcp", "--merge", network, path)), len(rows("tcp", network)))


def files():
    path = recording("net.4.5.2.x64")
    disk = read_json(run("summary", path, "--format", "json"))["disk"]
    found = rows("files", path)
    check("files: every byte of disks", sum(r["disk_bytes"] for r in found), sum(disk["read_bytes_by_pid"].values()) + sum(disk["write_bytes_by_pid"].values()))
    opens = events(path, "--provider", "Microsoft-Windows-Kernel-File", "--event", "12")
    check("files: opens", sum(r["opens"] for r in found), len(opens))
    names = collections.Counter(r["fields"]["FileName"] for r in opens)
    ours = {r["path"]: r["opens"] for r in found if r["opens"] and r["path"] in names}
    check("files: opens by name", ours, {k: v for k, v in names.items() if k in ours})
    ensure("files: most of them by name", sum(ours.values()) > 0.9 * len(opens), sum(ours.values()))
    by_directory = rows("files", path, "--depth", "3")
    check("files: by directory nothing is lost", sum(r["disk_bytes"] for r in by_directory), sum(r["disk_bytes"] for r in found))
    ensure("files: fewer rows", len(by_directory) < len(found))
    check("files: at most so many", len(rows("files", path, "-n", "3", "--by", "time")), 3)


def modules(room):
    path = recording("net.4.5.2.x64")
    store = set()
    for r in events(path, "--provider", "ImageID", "--event", "36"):
        pdb = r["fields"]["PDBFileName"].rpartition("\\")[2]
        store.add("%s/%s%X/%s" % (pdb, r["fields"]["GuidSig"].replace("-", "").upper(), r["fields"]["Age"], pdb))
    found = rows("modules", path)
    ours = {r["symbols"] for r in found if "symbols" in r}
    check("modules: identities of symbols", store - ours, set())
    clr = next(r for r in rows("modules", path, "--pid", "3676") if r["module"] == "clr.dll")
    check("modules: a version", clr["version"], "4.0.30319.34209 built by: FX452RTMGDR")
    missing = {r["symbols"] for r in rows("modules", path, "--missing-symbols")}
    check("modules: without symbols", missing, ours)
    os.makedirs(os.path.join(room, clr["symbols"].rpartition("/")[0]))
    open(os.path.join(room, clr["symbols"]), "wb").close()
    check("modules: what is there is not missing", missing - {r["symbols"] for r in rows("modules", path, "--missing-symbols", "--symbols", room)},
          {clr["symbols"]})


def open_all_along(room):
    """Files that were open before the recording: their names come last, by key; what classic records tell, too, counts once."""
    file, disk = "edd08927-9cc4-4e65-b970-c2560fb5c289", "c7bde69a-e1e0-4177-b6ef-283ad1525271"

    def read(ms, thing, key, n, number=15):
        return made.event(ms, file, number, struct.pack("<QQQQIIII", 0, 1, thing, key, 8, n, 0, 0), version=1)

    def create(ms, thing, name, number=12):
        return made.event(ms, file, number, struct.pack("<QQIIII", 1, thing, 8, 0, 0, 0) + made.wide(name), version=1)

    def classic(ms, n, thing):
        return made.system(ms, 1, 10, struct.pack("<IIIIQQQQI", 0, 0, n, 0, 0, thing, 1, 10, 8), version=3)

    def disked(ms, n, thing):
        return made.event(ms, disk, 10, struct.pack("<IIIIQQQQ", 0, 0, n, 0, 0, thing, 1, 10))

    path = made.write(os.path.join(room, "open.etl"), [
        read(1, 0x7000, 0x9000, 100), create(2, 0x7100, "\\new.txt"), create(2, 0x7100, "\\new.txt", 30), read(3, 0x7100, 0x9100, 50, 16),
        classic(4, 4096, 0x9000), disked(5, 4096, 0x9000),
        made.event(6, file, 10, struct.pack("<Q", 0x9000) + made.wide("\\open.txt"))])
    check("files: names that come last, and once what is told twice",
          sorted((r["path"], r["opens"], r["reads"], r["writes"], r["bytes"], r["disk_bytes"]) for r in rows("files", path)),
          [("\\new.txt", 1, 0, 1, 50, 0), ("\\open.txt", 0, 1, 0, 100, 4096)])
    path = made.write(os.path.join(room, "opens.etl"), [made.process(0, 3, 10, 4, "svchost.exe", "C:\\svchost.exe -k netsvcs -p -s Winmgmt"),
        made.process(0, 3, 11, 4, "app.exe", "app -s Winmgmt"), made.thread(0, 3, 10, 8), create(2, 0x7100, "\\new.txt"), create(3, 0x7100, "\\new.txt")])
    check("processes: opens, and the service", [(r["pid"], r.get("file_opens"), r.get("service")) for r in rows("processes", path) if r["pid"] > 4],
          [(10, 2, "Winmgmt"), (11, 0, None)])


def many_types(room):
    """More types than there is room for are summed, and the sum is of no process."""
    clr, n = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", 4200
    path = made.write(os.path.join(room, "types.etl"), [made.process(0, 1, 4, 0, "app.exe")] + [
        made.event(1 + i, clr, 10, struct.pack("<IIHQQ", 1, 0, 1, 1, 0) + made.wide("T%d" % i) + struct.pack("<I", 0), version=2) for i in range(n)])
    found = read_json(run("clr", path, "--what", "alloc", "--format", "json"))
    check("clr: what has no room", [(r.get("pid"), r["process"], r["type"], r["ticks"]) for r in found if r["type"] == "(more)"],
          [(None, "(more)", "(more)", n - 4095)])
    check("clr: and what has", sum(r["ticks"] for r in found if r.get("pid") == 4 and r["process"] == "app.exe"), 4095)


def damaged_manifest(room):
    where = os.path.join(room, "manifests")
    os.mkdir(where)
    with open(os.path.join(where, "cut.man"), "w", encoding="utf-8") as f:
        f.write('<instrumentationManifest><provider guid="{1c95126e-7eea-49a9-a3fe-a378b03ddb4d}" name="X"><events>')
    r = subprocess.run([ETL, "providers", recording("smallEtlFile"), "--manifests", where], capture_output=True, text=True, timeout=60, check=False)
    ensure("a damaged manifest in a directory is told", r.returncode == 0 and "--manifests: 1 damaged" in r.stderr, r)


def many_reports(room):
    """As many processes as reports about them: each its own, in time that does not grow with their square."""
    n, records = 12000, []
    for i in range(n):
        records.append(made.process(i / 10, 1, 1000 + 4 * i, 4, "app.exe"))
        records.append(made.process(i / 10, 1, 500000 + 4 * i, 4, "WerFault.exe", "WerFault.exe -u -p %d -s 4" % (1000 + 4 * i)))
    path = made.write(os.path.join(room, "reports.etl"), records)
    begun = time.monotonic()
    found = read_json(run("processes", path, "--crashed", "--format", "json"))
    ensure("crashes: in time", time.monotonic() - begun < 30, time.monotonic() - begun)
    check("crashes: a report for each", all(r["reported_by"] - r["pid"] == 499000 for r in found) and len(found), n)


def span(row):
    return int(row["took_max"]) if "took_max" in row else None


def questions(room):
    """Payloads by the published layouts: DNS and RPC are in no recording of the corpus."""
    dns, rpc = "1c95126e-7eea-49a9-a3fe-a378b03ddb4d", "6ad52b32-d609-4be9-ae07-ce8dae937e39"

    def asked(ms, name, pid=7):
        return made.event(ms, dns, 3006, made.wide(name) + struct.pack("<IQ", 1, 0) + made.wide("") + struct.pack("<IIII", 1, 0, 0, 0), pid=pid)

    def done(ms, name, status, results, pid=7):
        return made.event(ms, dns, 3008, made.wide(name) + struct.pack("<IQI", 1, 0, status) + made.wide(results), pid=pid)

    def begin(ms, number, tid, procedure):
        call = bytes(range(16)) + struct.pack("<II", procedure, 1) + made.wide("") + made.wide("epmapper") + made.wide("")
        return made.event(ms, rpc, number, call + struct.pack("<III", 2, 10, 3), version=1, tid=tid, pid=9, opcode=1)

    def end(ms, number, tid, status):
        return made.event(ms, rpc, number, struct.pack("<I", status), version=1, tid=tid, pid=9, opcode=2)

    def nested(depth):
        calls = [begin(40 + i, 5, 4, 100 + i) for i in range(depth)]
        return calls + [end(60 + i, 7, 4, 0) for i in range(depth)]

    path = made.write(os.path.join(room, "deep.etl"), nested(6) + [begin(80, 5, 5, 200)])
    check("rpc: those that are too deep have no times, the others theirs", sorted((r["procedure"], r["calls"], span(r)) for r in rows("rpc", path)),
          [(100, 1, 25_000_000), (101, 1, 23_000_000), (102, 1, 21_000_000), (103, 1, 19_000_000), (104, 1, None), (105, 1, None), (200, 1, None)])
    text = run("rpc", path)
    ensure("rpc: that is told", "1 calls whose begin or end" in text and "2 calls had no room" in text, text)
    path = made.write(os.path.join(room, "short.etl"), [begin(1, 5, 1, 1), end(1.0019, 7, 1, 0), begin(2, 5, 1, 1), end(6, 7, 1, 0),
        begin(7, 5, 2, 2), end(100_007, 7, 2, 0), begin(100_008, 5, 2, 2), end(400_008, 7, 2, 0)])
    check("rpc: short and long ones, to a quarter", sorted((r["took_p50"], r["took_max"]) for r in rows("rpc", path)),
          [("100663296000", "300000000000"), ("2000", "4000000")])
    path = made.write(os.path.join(room, "questions.etl"), [
        asked(1, "git.corp"), done(3, "git.corp", 0, "10.2.0.9;"), asked(4, "no.corp"), done(9, "no.corp", 9003, ""),
        asked(10, "git.corp"), done(14, "git.corp", 0, "10.2.0.9;"), asked(15, "git.corp", pid=8),
        begin(20, 5, 1, 3), begin(21, 6, 2, 3), begin(22, 5, 2, 4), end(24, 7, 2, 0), end(25, 8, 2, 5), end(30, 7, 1, 0), end(31, 7, 3, 0)])
    found = rows("dns", path)
    check("dns", [(r["pid"], r["name"], r["type"], r["queries"], r["failed"], span(r), r.get("results")) for r in found],
          [(7, "git.corp", "A", 2, 0, 4_000_000, "10.2.0.9;"), (7, "no.corp", "A", 1, 1, 5_000_000, None), (8, "git.corp", "A", 0, 0, None, None)])
    ensure("dns: its median", 2_000_000 <= int(found[0]["took_p50"]) <= 2_500_000, found[0])
    check("dns: a failure has its status", [r["status"] for r in found if r["failed"]], [9003])
    found = rows("rpc", path)
    check("rpc", sorted((r["side"], r["procedure"], r["calls"], r["failed"], span(r), r["endpoint"]) for r in found),
          [("client", 3, 1, 0, 10_000_000, "epmapper"), ("client", 4, 1, 0, 2_000_000, "epmapper"), ("server", 3, 1, 1, 4_000_000, "epmapper")])
    check("rpc: shares of one call", all(r["took_p50"] == r["took_p99"] == r["took_max"] for r in found), True)
    check("rpc: its interface", {r["interface"] for r in found}, {"03020100-0504-0706-0809-0a0b0c0d0e0f"})
    ensure("rpc: an end without begin is told", "1 calls whose begin or end" in run("rpc", path))


http()
limits()
files()
tcp()
providers()
tree()
with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as directory:
    made_up(directory)
    cached(directory)
    modules(directory)
    questions(directory)
    open_all_along(directory)
    many_types(directory)
    damaged_manifest(directory)
    many_reports(directory)
sys.exit(0)
