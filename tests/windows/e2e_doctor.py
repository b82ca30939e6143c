"""doctor of the Windows agent under Wine: what it finds on good and broken hosts, and its exit codes."""

import json
import os
import subprocess
import sys

EXE = os.path.join(os.environ["PROCFLEET_BIN"], "procfleet-agent.exe")
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)
from prefix import WINE, WINESERVER, Prefix  # noqa: E402

OK, FAILED, USAGE, UNREACHABLE, REFUSED = 0, 1, 2, 3, 4


class Host:
    """A host of its own state directory and certificate."""

    def __init__(self, fleet, wine, name):
        self.fleet, self.wine, self.name = fleet, wine, name
        fleet.agent_args(name)

    def args(self, **settings):
        return [a.replace("=/", "=Z:/") for a in self.fleet.agent_args(self.name, **settings)]

    def doctor(self, *more, expect, **settings):
        out, _ = self.wine.run(EXE, "doctor", "--format", "json", *more, *self.args(**settings), expect=expect, timeout=90)
        rows = json.loads(out)
        check("whatever is wrong says what to do", [r for r in rows if r["state"] in ("failed", "warning") and not r["fix"]], [])
        return rows

    def start(self, **settings):
        with open(self.fleet.path(self.name + ".log"), "ab") as f:
            p = subprocess.Popen([WINE, EXE, "run", *self.args(batch__max_age="500ms", **settings)], env=self.wine.env,
                                 stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        self.fleet.processes.append(p)
        self.fleet.wait_for("data of " + self.name, lambda: self.fleet.hosts().get(self.name))
        return p


def has(rows, name, state, words=""):
    found = [r for r in rows if r["check"] == name]
    ensure("%s is %s %s" % (name, state, words), any(r["state"] == state and words in r["detail"] for r in found), found)


def good(host):
    rows = host.doctor(expect=OK)
    check("nothing failed", [r for r in rows if r["state"] == "failed"], [])
    for name in ("tls.key", "tls.certificate", "tls.role", "tls.name", "state.write", "clock.time", "collector", "tables.5",
                 "etw.orphans"):
        has(rows, name, "ok")
    has(host.doctor(expect=OK, state_dir=r"C:\agents\winlab"), "state.trust", "ok")
    os.makedirs(host.wine.drive("shared", "agents"))
    os.chmod(host.wine.drive("shared"), 0o777)
    has(host.doctor(expect=OK, state_dir=r"C:\shared\agents"), "state.trust", "warning", r"C:\shared can be moved")
    has(rows, "etw.session", "warning", "access denied")
    has(rows, "rights.events", "skipped", "could not be tried")
    has(rows, "tables.148", "skipped", "it takes an administrator, LocalSystem")
    has(rows, "source", "warning", "no events")
    has(rows, "facts", "skipped", "doctor --facts")
    out, _ = host.wine.run(EXE, "doctor", "--fix", *host.args())
    ensure("as text it ends with a count", " 0 failed, " in out.splitlines()[-1], out)
    ensure("there was nothing to mend", "no session was left behind" in out, out)


def facts(host):
    rows = host.doctor("--facts", expect=OK)
    has(rows, "fact.sessions", "skipped", "access denied")
    has(rows, "fact.handles", "ok", "0 handles")
    has(rows, "fact.ticks", "ok")
    has(rows, "fact.names", "ok", "works")
    has(rows, "fact.cycles", "skipped")
    check("what only time can tell is said", len([r for r in rows if r["check"] == "fact.service"]), 3)
    check("nothing stays in the state directory", sorted(os.listdir(host.fleet.path("agents", host.name))), [])


def broken(fleet, host):
    tls = fleet.tls(host.name)
    rows = host.doctor(expect=FAILED, tls__key=fleet.path("nowhere.key"))
    has(rows, "tls.key", "failed", "there is no key")
    has(rows, "collector", "skipped")

    os.chmod(tls["key"], 0o644)
    rows = host.doctor(expect=FAILED)
    has(rows, "tls.key", "failed", "others can read")
    has(rows, "tls.certificate", "skipped", "such a key")
    agent = [EXE, "run", *host.args()]
    ensure("and no agent starts with it", "others can read" in host.wine.run(*agent, expect=1)[1])
    os.chmod(tls["key"], 0o600)

    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("theirs"), "--name", "another authority")
    theirs = fleet.issue("agent", "stranger", "theirs")
    rows = host.doctor(expect=FAILED, tls__ca=fleet.path("theirs", "ca.pem"))
    has(rows, "tls.certificate", "failed", "authority")
    rows = host.doctor(expect=REFUSED, tls__ca=fleet.path("theirs", "ca.pem"), tls__cert=theirs["cert"], tls__key=theirs["key"])
    has(rows, "tls.certificate", "ok")
    has(rows, "tls.name", "warning", "stranger")
    has(rows, "collector", "failed")
    rows = host.doctor(expect=UNREACHABLE, collector__addresses="127.0.0.1:1")
    has(rows, "collector", "failed")
    rows = host.doctor(expect=FAILED, collector__addresses="")
    has(rows, "collector", "failed", "not set")
    rows = host.doctor(expect=OK, state_dir=fleet.path("agents", "new"))
    has(rows, "state.write", "warning", "does not exist")
    ensure("doctor makes no state directory", not os.path.exists(fleet.path("agents", "new")))
    host.wine.run(EXE, "doctor", "--set", "no.such=1", expect=USAGE)
    host.wine.run(EXE, "doctor", "--format", "xml", *host.args(), expect=USAGE)


def beside_an_agent(fleet, host, second):
    agent = host.start()
    rows = host.doctor("--fix", expect=OK)
    has(rows, "state.lock", "ok", "an agent is running")
    has(rows, "etw.orphans", "ok", "no session was left behind")  # Wine refuses it sessions: it holds none
    ensure("the agent is not disturbed", agent.poll() is None)
    ensure("a second one with the same directory is refused",
           "another agent uses" in host.wine.run(EXE, "run", *host.args(), expect=1)[1])
    other = second.start()
    log = fleet.log(second.name + ".log")
    ensure("with its own it is refused sessions by the system, as the first one is, and by nobody else",
           "access denied" in log and "another agent on this host" not in log, log)
    for p in (agent, other):
        p.kill()
        p.wait()
    has(host.doctor(expect=OK), "etw.orphans", "ok", "no session was left behind")


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("the collector is a Linux program: build the preset release first")
if not WINESERVER:
    skip("there is no wineserver")
with Fleet() as fleet:
    fleet.start_collector()
    wine = Prefix(fleet)
    try:
        host = Host(fleet, wine, "winlab")
        good(host)
        facts(host)
        broken(fleet, host)
        beside_an_agent(fleet, host, Host(fleet, wine, "second"))
    finally:
        wine.end()
sys.exit(0)
