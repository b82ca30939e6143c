"""What docs/operating.md promises of a collector's data: an older version's directory opens, a back-up made while it is stopped and
one of a snapshot restore to the same answers, elsewhere too, and agents find the collector at its new address and lose nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys

from fleet import BIN, ROOT, Fleet, check, ensure

OLD = os.path.join(ROOT, "tests", "collector", "fixtures")
THEN = ["--host", "gen-1", "--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T00:07:00Z"]
AGES = {"retention__%s__age" % kind: "3650d" for kind in ("raw", "10s", "1min", "1h", "events")}
PARTS = ("data", "pki", "tls")
ON_THE_WAY = ("agent", "batch", "spool", "uplink", "stream", "store")  # not the kernel, which drops notices on a busy machine


def old_data(data):
    """What a collector of format 1 has sealed (test_wal and test_hosts_file open its log and its hosts)."""
    shutil.copytree(os.path.join(OLD, "store-format1"), os.path.join(data, "segments"))


def answers(fleet):
    """Everything that is stored: of the old version's host, and what the agent has sent."""
    return {"history": fleet.ask("history", *THEN, "--name", "*", "-n", "100000", expect=None),
            "old events": fleet.ask("events", *THEN, "-n", "100000", expect=None),
            "events": fleet.ask("events", "--host", "one", "--since", "1h", "-n", "100000", expect=None),
            "samples": fleet.ask("history", "--host", "one", "--name", "*", "--since", "1h", "-n", "100000", expect=None)}


def settled(fleet):
    """Answers that no batch under way changes any more: a later one may say more of a process than was known."""
    seen = [answers(fleet)]

    def again():
        seen.append(answers(fleet))
        return seen[-1] == seen[-2]
    fleet.wait_for("the same answers twice", again)
    return seen[-1]


def sound(data):
    """As 'store check' says; the ending was in order, or not."""
    done = subprocess.run([os.path.join(BIN, "procfleet-collector"), "store", "check", "--set", "data_dir=" + data], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)
    ensure("what is in %s is sound" % os.path.basename(os.path.dirname(data)), done.returncode == 0, done.stdout.decode())


def same(what, got, wanted):
    for part, rows in wanted.items():
        lacking = [r for r in rows if r not in got[part]]
        instead = [g for g in got[part] if any((g["time"], g.get("pid")) == (r["time"], r.get("pid")) for r in lacking)]
        ensure("%s: the same %s, %d of them" % (what, part, len(rows)), not lacking, {"lacking": lacking, "instead": instead})


class Site(Fleet):
    """Where a collector may stand: a directory with its data and an address."""

    where, address = ".", "127.0.0.1"

    def start_here(self):
        base = self.path(self.where)
        conf = {"data_dir": base + "/data", "pki__dir": base + "/pki"}
        for part in ("ca", "cert", "key"):
            conf["tls__" + part] = {"ca": base + "/pki/ca.pem", "cert": base + "/tls/collector/collector.pem",
                                    "key": base + "/tls/collector/collector.key"}[part]
        for name in ("ingest", "query", "events", "enroll"):
            conf["listen__" + name] = "%s:%s" % (self.address, self.ports.get(name, 0))
        return self.start_collector(**conf, **AGES)

    def ask(self, *args, expect=0, **more):
        tls = self.tls("operator")
        env = dict(os.environ, PROCFLEET_COLLECTOR="%s:%s" % (self.address, self.ports["query"]), PROCFLEET_CA=tls["ca"],
                   PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
        return json.loads(self.run("procfleet", *args, "--format", "json", env=env, expect=expect, **more)[1] or "[]")

    def back_up(self, to):
        for part in PARTS:
            shutil.copytree(os.path.join(self.path(self.where), part), self.path(to, part), symlinks=True)


def work():
    for _ in range(3):
        subprocess.run(["true"], check=True)


def told(fleet, n):
    """Until the collector has n more events than none of the agent's."""
    def more():
        work()
        return len(fleet.ask("events", "--host", "one", "--since", "1h", "-n", "100000", expect=None)) >= n
    fleet.wait_for("%d events" % n, more)


with Site() as fleet:
    os.mkdir(fleet.path("data"))
    old_data(fleet.path("data"))
    fleet.start_here()
    ensure("an older version's data answer", fleet.ask("history", *THEN, "--name", "*", expect=None), fleet.log("collector.log"))
    new = "127.0.0.2:" + fleet.ports["ingest"]  # where it will be one day: behind the address of today, before the move
    agent = fleet.start_agent("one", batch__max_age="200ms", sampling__rate_hz=10,
                      collector__addresses="127.0.0.1:%s,%s" % (fleet.ports["ingest"], new))
    told(fleet, 20)

    # a snapshot of the file system, at one moment of a collector at work
    fleet.collector.send_signal(signal.SIGSTOP)
    fleet.back_up("snapshot")
    fleet.collector.send_signal(signal.SIGCONT)
    told(fleet, 40)

    # stopped; the agent keeps what it has meanwhile
    check("the collector ends in order", fleet.stop(fleet.collector), 0)
    fleet.back_up("stopped")
    fleet.start_here()
    told(fleet, 60)
    agent.send_signal(signal.SIGSTOP)
    before = settled(fleet)
    ensure("there is much to compare", all(before.values()), {k: len(v) for k, v in before.items()})
    check("the collector ends in order again", fleet.stop(fleet.collector), 0)
    fleet.back_up("moved")
    sound(fleet.path("stopped", "data"))
    sound(fleet.path("snapshot", "data"))

    # a move: the same files on another machine, with another address; the certificate's name is the fleet's
    fleet.where, fleet.address = "moved", "127.0.0.2"
    for part in PARTS:
        os.rename(fleet.path(part), fleet.path("gone-" + part))
    os.symlink(fleet.path("moved", "tls"), fleet.path("tls"))  # this test's own people keep their files
    os.symlink(fleet.path("moved", "pki"), fleet.path("pki"))
    fleet.start_here()
    same("moved", answers(fleet), before)
    agent.send_signal(signal.SIGCONT)  # not before: it may tell a process's newer name, which its old samples have then, too
    n = len(answers(fleet)["events"])
    told(fleet, n + 20)
    fleet.wait_for("no batch to be missing", lambda: {h["host"]: h for h in fleet.ask("hosts", expect=None)}["one"]["gaps"] == 0)
    ledger = fleet.ask("coverage", "--host", "one", "--since", "1h", "--stages", expect=None)
    ensure("it has an account", any(r["stage"] == "spool" and r["count"] for r in ledger), ledger)
    check("the agent came along and lost nothing on the way", [r for r in ledger if r["stage"] in ON_THE_WAY and r["role"] in ("lost", "dropped") and r["count"]], [])
    check("it ends in order at its new place", fleet.stop(fleet.collector), 0)

    # restored from the older copies: what is in them is there, and what came after it is known to be missing
    for copy in ("stopped", "snapshot"):
        fleet.where = copy
        fleet.start_here()
        got = answers(fleet)
        check("the %s copy has the old version's rows" % copy, got["history"], before["history"])
        ensure("and the agent's", len(got["events"]) >= 20, len(got["events"]))
        fleet.wait_for("the agent at the %s copy" % copy, lambda: {h["host"]: h for h in fleet.ask("hosts", expect=None)}["one"]["state"] != "silent")
        fleet.wait_for("what the copy lacks to show as gaps", lambda: work() or
                       {h["host"]: h for h in fleet.ask("hosts", expect=None)}["one"]["gaps"] > 0)
        check("the %s copy ends in order" % copy, fleet.stop(fleet.collector), 0)
sys.exit(0)
