"""Runs: marks through kills, offline, nested, of other owners and scopes; files made, made again, carried elsewhere."""

import json
import os
import signal
import subprocess
import time

from fleet import BIN, Fleet, check, ensure

BURN = os.path.join(BIN, "tests", "burn")


def privileged():
    """Whether the process connector and taskstats are open to us (CAP_NET_ADMIN)."""
    with open("/proc/self/status") as f:
        caps = next(int(line.split()[1], 16) for line in f if line.startswith("CapEff"))
    return bool(caps >> 12 & 1)


def environment(fleet, who, **more):
    tls = fleet.tls(who)
    return dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
                PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"], XDG_STATE_HOME=fleet.path("state"), **more)


def run(fleet, *args, who="ci", expect=0, **more):
    return fleet.run("procfleet", "run", *args, env=environment(fleet, who, **more), expect=expect)


def listed(fleet, *args, who="operator"):
    return fleet.ask("run", "list", *args, who=who)


def ready(fleet, name, state="ready"):
    def there():
        rows = listed(fleet, name)
        return rows[0] if rows and rows[0]["state"] == state and "revision" in rows[0] else None

    return fleet.wait_for("%s to be %s" % (name, state), there)


def marks(fleet):
    path = fleet.path("state", "procfleet", "marks")
    return os.path.getsize(path) if os.path.exists(path) else 0


def exact(fleet):
    """A command is a run: its tree, its totals, its exit code, its environment."""
    before = os.times()
    run(fleet, "exec", "burn", "--label", "build=4711", "--", "sh", "-c", BURN + " cpu 0.4; " + BURN + " cpu 0.2; exit 0")
    used = os.times()
    spent = (used.children_user + used.children_system) - (before.children_user + before.children_system)
    row = ready(fleet, "burn")
    check("its label", row["labels"], "build=4711")
    check("its hosts", (row["hosts"], row["hosts_in"], row["coverage"]), (1, 1, 100.0))
    groups = {r["group"]: r for r in fleet.ask("run", "show", "burn")}
    if privileged():
        check("its processes", groups["burn"]["processes"], 2)
        ensure("its CPU time is that of the kernel", 0.6e9 <= groups["(all)"]["cpu_time"] <= spent * 1e9 + 2e7,
               (groups["(all)"], spent))
        top = {r["name"]: r for r in fleet.ask("top", "--run", "burn", "--group-by", "image", expect=None)}
        check("top says the same of the run", {n: r["cpu_time"] for n, r in top.items()},
              {n: r["cpu_time"] for n, r in groups.items() if n != "(all)"})
    else:
        print("skipped: exact totals: taskstats needs CAP_NET_ADMIN")
    code, _, _ = run(fleet, "exec", "failed", "--", "sh", "-c", "exit 7", expect=7)
    code, _, _ = run(fleet, "exec", "killed", "--", "sh", "-c", "kill -SEGV $$", expect=128 + signal.SIGSEGV)
    code, _, err = run(fleet, "exec", "nothing", "--", "/nonexistent/program", expect=127)
    ensure("what could not be started is named", "/nonexistent/program" in err, err)
    check("a run that failed says so", ready(fleet, "failed", "failed")["exit_code"], 7)
    ready(fleet, "killed", "failed")
    if privileged():
        _, shown, _ = fleet.cli("run", "show", "killed", "--format", "table")
        ensure("run show names the crash", "; one process tree\ncrashed: " in shown and ": SIGSEGV\n" in shown, shown)
        check("a run bounds crashes", [[r["ended_by"] for r in fleet.ask("crashes", "--run", name, expect=None)]
                                       for name in ("killed", "failed")], [["SIGSEGV"], []])


def passed_on(fleet):
    """A signal reaches the command; the run ends with it."""
    p = subprocess.Popen([os.path.join(BIN, "procfleet"), "run", "exec", "signalled", "--", "sleep", "60"],
                         env=environment(fleet, "ci"))
    fleet.wait_for("the run to be open", lambda: listed(fleet, "signalled", "--state", "open"))
    p.send_signal(signal.SIGTERM)
    check("the command ended by the signal", p.wait(20), 128 + signal.SIGTERM)
    check("and the run with it", ready(fleet, "signalled", "failed")["exit_code"], 128 + signal.SIGTERM)


def nested(fleet):
    run(fleet, "exec", "outer", "--", os.path.join(BIN, "procfleet"), "run", "exec", "inner", "--", "true")
    inner, outer = listed(fleet, "inner")[0], listed(fleet, "outer")[0]
    check("a run inside a run is its part", inner["parent"], outer["id"])


def repeated(fleet):
    """Marks are idempotent; of several runs of a name each can be named."""
    _, first, _ = run(fleet, "begin", "twice", "--job", "job-1")
    _, again, _ = run(fleet, "begin", "twice", "--job", "job-1")
    check("the same key is the same run", first, again)
    run(fleet, "end", "twice", "--job", "job-1")
    run(fleet, "end", "twice", "--job", "job-1", "--exit", "3")
    check("an end counts once", (len(listed(fleet, "twice")), "exit_code" in listed(fleet, "twice")[0]), (1, False))
    ids = []
    for _ in range(3):
        ids.append(run(fleet, "begin", "many")[1].strip())
        run(fleet, "end", "many")
    check("NAME@n counts from the newest", [listed(fleet, "many@%d" % n)[0]["id"] for n in (1, 2, 3)], ids[::-1])
    check("NAME@id is that one", listed(fleet, "many@" + ids[1][:8])[0]["id"], ids[1])
    check("a glob names all", len(listed(fleet, "man*")), 3)
    check("a label narrows", len(listed(fleet, "--label", "build=47*")), 1)


def roles(fleet):
    _, _, err = run(fleet, "list", who="ci", expect=4)
    ensure("role mark reads nothing", "role" in err, err)
    run(fleet, "begin", "no", who="operator", expect=4)
    run(fleet, "begin", "quiet", "--label", "silence=*", expect=4)
    run(fleet, "begin", "quiet", "--label", "silence=*", "--host", "lab-*", who="boss")
    run(fleet, "end", "quiet", who="boss")
    run(fleet, "begin", "mine", "--host", "lab-1")
    _, _, err = run(fleet, "end", "mine", who="other", expect=1)
    ensure("another's run is none of one's own", "no such run of other" in err, err)
    run(fleet, "end", "mine", who="boss")
    check("role admin ends any", listed(fleet, "mine")[0]["state"] != "open", True)
    run(fleet, "begin", "far", "--host", "lab-1", who="narrow", expect=4)
    run(fleet, "begin", "near", "--host", "*", who="narrow")
    run(fleet, "end", "near", who="narrow")
    check("a scope keeps a run to its hosts", listed(fleet, "near")[0]["hosts"], 0)
    check("a reader sees runs inside his scope only", listed(fleet, who="guest"), [])
    _, out, _ = fleet.run("procfleet-collector", "pki", "list", "--dir", fleet.path("pki"))
    ensure("two roles of one certificate", "query,mark" in out, out)


def kill(fleet):
    """kill -9 of the collector: between marks, and while a file is made."""
    begin = run(fleet, "begin", "k", "--host", "*")[1].strip()
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector()
    run(fleet, "end", "k")
    fleet.collector.kill()  # its file is not there yet, or half
    fleet.collector.wait()
    open(fleet.path("data", "runs", begin + ".new"), "w").write("half")
    fleet.start_collector()
    row = ready(fleet, "k")
    check("one run, from the first moment on", (row["id"], len(listed(fleet, "k"))), (begin, 1))
    check("its file is there, nothing half beside it", [os.path.exists(fleet.path("data", "runs", begin + x)) for x in (".pfr", ".new")],
          [True, False])


def offline(fleet):
    """No collector: the command runs, the marks come later, with their own times."""
    port, fleet.ports["query"] = fleet.ports["query"], "1"
    began = time.time()
    _, out, err = run(fleet, "exec", "offline", "--", "sh", "-c", "echo done; sleep 1")
    check("the command runs", out, "done\n")
    ensure("it is said", "kept" in err, err)
    p = subprocess.Popen([os.path.join(BIN, "procfleet"), "run", "exec", "lost", "--", "sleep", "60"], env=environment(fleet, "ci"),
                         stderr=subprocess.PIPE, text=True)
    ensure("the begin is kept before the command goes on", "kept" in "".join(p.stderr.readline() for _ in range(2)))
    p.kill()  # the command line: the begin stays, nobody ends it
    p.wait()
    fleet.ports["query"] = port
    env = environment(fleet, "ci")
    port1 = env["PROCFLEET_COLLECTOR"]
    ensure("marks are on the disk", marks(fleet) > 0)
    # the file names the collector: the same one under its old address
    path = fleet.path("state", "procfleet", "marks")
    check("they are of the collector that was asked for", b"127.0.0.1:1" in open(path, "rb").read(), True)
    del port1
    return began


def offline_sent(fleet):
    """The same with the collector's own address, which is down for a while."""
    fleet.collector.kill()
    fleet.collector.wait()
    began = time.time()
    run(fleet, "exec", "later", "--label", "x=y", "--", "sleep", "1")
    fleet.start_collector()
    _, _, err = run(fleet, "exec", "next", "--", "true")
    ensure("the next run sends them", "2 marks that were kept are sent" in err, err)
    row = listed(fleet, "later")[0]
    ensure("with their own times", abs(row["began_time"] / 1e9 - began) < 1 and 0.9e9 <= row["took_ns"] <= 3e9, (row, began))
    ensure("they say that they came late", row["late"], row)
    ready(fleet, "later")


def crowded(fleet):
    """More marks at once than a certificate may: what is not taken is kept, and nothing is lost."""
    many = [subprocess.Popen([os.path.join(BIN, "procfleet"), "run", "exec", "crowd", "--", "true"], env=environment(fleet, "ci"),
                             stderr=subprocess.DEVNULL) for _ in range(24)]
    check("each command ran", [p.wait(60) for p in many], [0] * len(many))
    for _ in range(3):
        if marks(fleet):
            run(fleet, "exec", "after", "--", "true")
    rows = listed(fleet, "crowd", "--limit", "100")
    check("each run is there and has ended", (len(rows), [r for r in rows if r["state"] == "open"]), (len(many), []))


def elsewhere(fleet):
    out = fleet.path("burn.pfr")
    fleet.cli("run", "export", "burn", "-o", out)
    hidden = fleet.path("hidden.pfr")
    fleet.cli("run", "export", "burn", "-o", hidden, "--redact", "hosts,users")
    ensure("a redacted file names no host", b"lab-1" not in subprocess.run(["zstdcat", "-f", hidden], capture_output=True).stdout)
    lib = fleet.path("hidden-lib")
    os.mkdir(lib)
    for name in ("burn", "k"):
        fleet.cli("run", "export", name, "-o", os.path.join(lib, name + ".pfr"), "--redact", "hosts")
    groups = {}
    for name in ("burn", "k"):
        _, text, _ = fleet.run("procfleet", "run", "show", name, "--runs", lib, "--group-by", "host", "--format", "json")
        groups[name] = json.loads(text)[0]["group"]
    ensure("a host has one name in every redacted file", groups["burn"] == groups["k"] and groups["k"].startswith("host-"), groups)
    fleet.cli("run", "import", out, who="operator", expect=4)
    _, _, err = fleet.cli("run", "import", out, who="boss", expect=None)
    ensure("the collector has it itself", "itself" in err, err)
    broken = fleet.path("broken.pfr")
    data = bytearray(open(out, "rb").read())
    data[len(data) // 2] ^= 1
    open(broken, "wb").write(data)
    fleet.cli("run", "import", broken, who="boss", expect=1)
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector(data_dir=fleet.path("data2"))
    fleet.cli("run", "import", out, "--name", "theirs", who="boss")
    check("imported", [(r["name"], r["state"]) for r in listed(fleet)], [("theirs", "imported")])
    groups = {r["group"]: r for r in fleet.ask("run", "show", "theirs")}
    ensure("and shown", "(all)" in groups, groups)


with Fleet() as fleet:
    fleet.issue("mark", "ci")
    fleet.issue("mark", "other")
    fleet.issue("admin,mark", "boss")
    fleet.issue("query,mark", "narrow", "pki", None, "--scope", "web-*")
    fleet.issue("query", "guest", "pki", None, "--scope", "web-*")
    fleet.start_collector()
    fleet.start_agent("lab-1")
    fleet.wait_for("the host to be known", lambda: "lab-1" in fleet.hosts())
    exact(fleet)
    passed_on(fleet)
    nested(fleet)
    repeated(fleet)
    roles(fleet)
    kill(fleet)
    offline(fleet)
    offline_sent(fleet)
    crowded(fleet)
    elsewhere(fleet)
