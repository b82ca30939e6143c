"""Questions that a lab asks, each in one command of docs/lab.md: who grew, who failed at once, two hosts side by side, the
parents of what crashed, an hour of one image as CSV."""

import csv
import io
import os
import subprocess
import sys
import tempfile
import time

from fleet import Fleet, check, ensure, read_json

FAST = {"sampling__rate_hz": "10", "batch__samples": "5", "batch__max_age": "1s"}
GROWS = "import time\nkept = []\nfor i in range(60):\n    kept.append(bytearray(b'x') * (2 << 20))\n    time.sleep(0.1)\n"


def act(room):
    """A process that grows; one that fails at once; one that crashes two levels below a shell; one that is killed."""
    grower = subprocess.Popen([sys.executable, "-c", GROWS])
    script = os.path.join(room, "labcrash.sh")
    with open(script, "w") as f:
        f.write("#!/bin/sh\nsh -c 'sleep 0.4; kill -SEGV $$'\nsleep 0.3\nsh -c 'exit 139'\nsh -c 'sleep 0.3; exit 3'\n"
                "sh -c 'kill -TERM $$'\nsleep 0.3\n")
    shell = subprocess.Popen(["sh", script], stderr=subprocess.DEVNULL)
    shell.wait()
    grower.wait()
    return grower.pid, shell.pid


def failures(fleet, shell):
    rows = fleet.ask("events", "--kind", "process_stop", "--where", "exit != 0 and life < 1s and parent == %d" % shell,
                     expect=None)
    check("who failed within a second", sorted(r["exit_code"] for r in rows), [3, 139, 139, 143])
    crashes = fleet.ask("crashes", "--where", "parent == %d" % shell, "--ancestors", expect=None)
    check("one crashed by a signal", [(r["ended"], r["ended_by"]) for r in crashes], [("crash", "SIGSEGV")])
    chain = crashes[0]["ancestors"].split(" < ")
    check("its parents, the nearest first", [int(p.split()[-1]) for p in chain[:2]], [shell, os.getpid()])
    ensure("with their names", "python" in chain[1], chain)
    errors = fleet.ask("crashes", "--kind", "error", "--where", "parent == %d" % shell, expect=None)
    check("exit 139 is none", [r["exit_code"] for r in errors], [139, 3])
    killed = fleet.ask("crashes", "--kind", "killed", "--where", "parent == %d" % shell, expect=None)
    check("nor is SIGTERM", [r["ended_by"] for r in killed], ["SIGTERM"])
    groups = fleet.ask("crashes", "--kind", "crash,error,killed", "--where", "parent == %d" % shell, "--group-by", "code",
                       expect=None)
    check("counted by code", {g["group"]: g["count"] for g in groups},
          {"SIGSEGV": 1, "exit 139": 1, "exit 3": 1, "SIGTERM": 1})
    rows = fleet.ask("events", "--kind", "process_stop", "--where", "ended == crash and parent == %d" % shell, "--ancestors",
                     expect=None)
    check("events have the same parents", rows[0]["ancestors"], crashes[0]["ancestors"])


def growth(fleet, grower):
    rows = fleet.ask("top", "--as", "growth", "--by", "private_bytes", "--since", "1m", "-n", "1",
                     "--where", "name ~ 'python*' and parent == %d" % os.getpid(), expect=None)
    check("who grew most", rows[0]["pid"], grower)
    ensure("by about what it allocated", 60 << 20 < rows[0]["private_bytes"] < 140 << 20, rows[0])
    ensure("all the time", rows[0]["steady"] > 80, rows[0])
    ensure("at its pace", 20 << 30 < rows[0]["per_hour"] < 140 << 30, rows[0])
    _, _, err = fleet.cli("top", "--as", "growth", expect=2)
    ensure("a counter's growth is refused with a sentence", "is a counter" in err, err)


def two_hosts(fleet):
    def both():
        rows = fleet.ask("top", "--host", "task-1", "--host", "task-2", "--group-by", "host", "--since", "1m", expect=None)
        return sorted(r["host"] for r in rows)
    fleet.wait_for("a second sample of both", lambda: len(both()) == 2)
    check("two hosts, of three", both(), ["task-1", "task-2"])
    code, out, err = fleet.cli("top", "--host", "task-1", "--host", "task-9", expect=5)
    ensure("one that is not there is told", 'no host matches "task-9"' in out + err, out + err)


def hour_of_an_image(fleet):
    _, out, _ = fleet.cli("history", "--group-by", "image", "--name", "python*", "-m", "private_bytes", "--since", "1h",
                          "--buckets", "3600", "--format", "csv", expect=None)
    rows = list(csv.DictReader(io.StringIO(out)))
    ensure("seconds of the hour", len(rows) > 5 and all(r["name"].startswith("python") for r in rows), out[:400])


def filters(fleet):
    code, _, err = fleet.cli("top", "--where", "cpu_time > 2GiB", expect=2)
    ensure("an error names its column", "column 12" in err, err)
    _, out, _ = fleet.cli("tree", "--host", "task-1", "--pid", str(os.getpid()), "--ancestors", expect=None)
    ensure("a tree has lines", any("\u2514\u2500 python" in line or "`- python" in line for line in out.splitlines()), out)
    ensure("and its moment last", out.splitlines()[-1].startswith("at 20") and out.splitlines()[-1].endswith("times in UTC"), out)
    rows = fleet.ask("tree", "--host", "task-1", "--pid", str(os.getpid()), "--ancestors", expect=None)
    ours = [r for r in rows if r["pid"] == os.getpid()]
    ensure("a tree has those above", ours and ours[0]["depth"] == len([r for r in rows if r["depth"] < ours[0]["depth"]]) > 0, rows)
    alive = fleet.ask("ps", "--host", "task-1", "--where", "pid == %d" % os.getpid(), expect=None)
    check("one process", [r["pid"] for r in alive], [os.getpid()])


def answers(fleet):
    """Order, the envelope, the last line of JSONL and of tables: the same for every question."""
    questions = [["top"], ["ps"], ["hosts"], ["events"], ["crashes"], ["coverage"], ["timeline"], ["providers"], ["run", "list"],
                 ["history", "--name", "python*"], ["history", "--group-by", "image"]]
    for q in questions:
        _, out, err = fleet.cli(*q, "--envelope", expect=None)
        whole = read_json(out)
        check("%s: an object" % q, sorted(set(whole) - {"since", "until"}),
              ["coverage", "notes", "partial", "rows", "shown", "total", "used"])
        check("%s: shown" % q, whole["shown"], len(whole["rows"]))
        ensure("%s: notes are in it alone" % q, not err, err)
        _, out, _ = fleet.cli(*q, "--format", "jsonl", expect=None)
        last = read_json(out.splitlines()[-1])
        check("%s: the last line" % q, (len(out.splitlines()) - 1, "rows" in last), (last["shown"], False))
    whole = read_json(fleet.cli("top", "--envelope", "-n", "2", expect=None)[1])
    ensure("coverage and range in numbers", whole["coverage"]["ppm"] > 0 and int(whole["since"]) < int(whole["until"]), whole)
    check("of more than are shown nobody knows the number", (whole["shown"], whole["total"]), (2, None))
    whole = read_json(fleet.cli("events", "--envelope", "-n", "1", "--since", "5m", expect=None)[1])
    ensure("of events all are counted", whole["shown"] == 1 < whole["total"], whole["total"])
    whole = read_json(fleet.cli("outliers", "--since", "1m", "--class", "os", "--envelope", expect=None)[1])
    ensure("three hosts are no class", not whole["rows"] and any(n.startswith("class linux: 0 hosts, 3 not judged") for n in whole["notes"]), whole)
    fleet.cli("outliers", "--where", "pid == 1", expect=2)
    boots = fleet.ask("boots", expect=None)
    check("a boot of each host, which goes on", sorted((b["host"], b.get("ended", "")) for b in boots),
          [("task-1", ""), ("task-2", ""), ("task-3", "")])
    ensure("since its start", all(b["up_ns"] > 0 and b["agent_after_ns"] > 0 for b in boots), boots)
    rows = fleet.ask("ps", "--sort", "name,-pid", expect=None)
    check("by name, the largest pid first", [(r["name"], r["pid"]) for r in rows],
          sorted(((r["name"], r["pid"]) for r in rows), key=lambda x: (x[0].encode(), -x[1])))
    _, out, _ = fleet.cli("top", "-n", "3", "--sort", "PID", "--since", "1m", "--time", "local", expect=None)
    ensure("a cut answer's order is told", "--sort has only these 3" in out, out)
    ensure("the last line is the range", out.splitlines()[-1].startswith("from 20") and "zone" in out.splitlines()[-1], out)
    _, _, err = fleet.cli("top", "--sort", "nothing", expect=2)
    ensure("what is no column is refused", "no column 'nothing'; there are host, pid" in err, err)
    fleet.cli("top", "--envelope", "--format", "csv", expect=2)
    groups = fleet.ask("hosts", "--group-by", "os,cores,label.image", expect=None)
    check("hosts by what they are", sorted((g["os"], g.get("label.image"), g["hosts"]) for g in groups if g["hosts"] == 1),
          [("linux", "v12", 1)])
    check("the others", [(g["hosts"], g["connected"], g["names"]) for g in groups if g["hosts"] == 2], [(2, 2, "task-2 task-3")])
    fleet.cli("hosts", "--group-by", "nothing", expect=2)


def labels(fleet):
    """What a live agent tells, what the collector assigns, and a run's file that has both."""
    host = {h["host"]: h for h in fleet.ask("hosts", "--wide", "--host", "task-*", expect=None)}
    check("its own labels, and the assigned one", sorted(host["task-1"]["labels"].split()), ["image=v12", "rack=7!"])
    check("another one's", host["task-2"]["labels"], "rack=7!")
    one = host["task-1"]
    check("the kernel", (one["os"], one["kernel"], one["arch"]), ("linux", os.uname().release, os.uname().machine))
    ensure("cores, memory, boot", one["cpu_cores"] >= 1 and one["memory_bytes"] > 64 << 20 and one["boot_time"], one)
    ensure("a class in words, and its digits", one["os_name"] in one["class"] and len(one["class_id"]) == 4, one)
    check("one machine is one class", host["task-2"]["class"], one["class"])
    other = {h["host"]: h for h in fleet.ask("hosts", "--wide", "--class", "arch,kernel", expect=None)}
    check("another class for one question", other["task-1"]["class"], "%s/%s" % (one["arch"], one["kernel"]))
    fleet.cli("hosts", "--class", "nothing", expect=2)

    def names(*args):
        return sorted(h["host"] for h in fleet.ask("hosts", *args, expect=None))
    check("by its own label", names("--label", "image=v1?"), ["task-1"])
    check("by the assigned one", names("--label", "rack=7"), ["task-1", "task-2", "task-3"])
    check("not by what it said of itself", names("--label", "rack=3"), [])
    check("by its inventory", names("--where", "cores >= 1 and label.image == 'v12'"), ["task-1"])
    check("and by what it is not", names("--where", "cores >= 100000"), [])
    fleet.issue("query,mark", "marker")
    fleet.cli("run", "begin", "classed", "--host", "task-1", who="marker")
    time.sleep(1.5)
    fleet.cli("run", "end", "classed", who="marker")
    room = fleet.path("files")
    os.mkdir(room)
    target = os.path.join(room, "classed.pfr")
    fleet.wait_for("its file", lambda: fleet.cli("run", "export", "classed", "-o", target, expect=None)[0] == 0)
    row = fleet.ask("run", "list", "classed", expect=None)[0]
    check("the list has it, too", row["class"], one["class"] + " ×1")
    page = os.path.join(room, "page.html")
    fleet.cli("report", "classed", "--runs", room, "-o", page, expect=None)
    with open(page) as f:
        text = f.read()
    ensure("the file has the class", one["class"].replace("&", "&amp;") in text, (one["class"], text[:3000]))


def main():
    with Fleet() as fleet, tempfile.TemporaryDirectory() as room:
        fleet.start_collector(lab__labels="task-* rack=7")
        for name in ("task-1", "task-2", "task-3"):
            fleet.start_agent(name, **(dict(FAST, labels="image=v12,rack=3") if name == "task-1" else {}))
        fleet.wait_for("three hosts", lambda: len([h for h in fleet.hosts().values() if h["processes"]]) == 3)
        grower, shell = act(room)
        fleet.wait_for("its end", lambda: [r for r in fleet.ask("events", "--kind", "process_stop", "--pid", str(grower),
                                                                "--host", "task-1", expect=None)])
        two_hosts(fleet)
        labels(fleet)
        os.environ["PROCFLEET_HOST"] = "task-1"  # all three agents see this machine
        failures(fleet, shell)
        growth(fleet, grower)
        hour_of_an_image(fleet)
        filters(fleet)
        del os.environ["PROCFLEET_HOST"]
        answers(fleet)


main()
