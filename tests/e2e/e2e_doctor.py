"""procfleet-collector doctor: says what is in the way of a collector, with the fix, before it runs and while it does."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))

from fleet import BIN, Fleet, check, ensure  # noqa: E402
from foreign_agent import S, Agent, enrolled  # noqa: E402

OK, ALREADY_EXISTS, FAILED_PRECONDITION = 0, 6, 9
GRACE = 15  # s that a boot which takes over may be a restart: CLONES_GRACE_NS


def settings(fleet, **more):
    tls = fleet.tls("collector")
    conf = {"data_dir": fleet.path("data"), "tls.ca": tls["ca"], "tls.cert": tls["cert"], "tls.key": tls["key"],
            "pki.dir": fleet.path("pki"), "listen.http": "127.0.0.1:0"}
    for name in ("ingest", "query", "events", "enroll"):
        conf["listen." + name] = "127.0.0.1:%s" % fleet.ports.get(name, 0)
    conf.update({k.replace("__", "."): v for k, v in more.items()})
    return [word for k, v in conf.items() for word in ("--set", "%s=%s" % (k, v))]


def doctor(fleet, *args, expect=0, **more):
    """The findings by check; every one that is not ok has a fix."""
    _, out, _ = fleet.run("procfleet-collector", "doctor", "--format", "json", *settings(fleet, **more), *args, expect=expect)
    rows = json.loads(out)
    ensure("doctor names a fix for all that is wrong",
           all(r.get("fix") for r in rows if r["state"] in ("warning", "failed")), rows)
    return {r["check"]: r for r in rows}


def states(found, *checks):
    return {c: found[c]["state"] for c in checks}


def before(fleet):
    found = doctor(fleet)
    check("a host that is prepared", states(found, "config", "tls.key", "tls.certificate", "tls.expiry", "tls.authority",
                                            "pki.book", "pki.key", "pki.agents"),
          {"config": "ok", "tls.key": "ok", "tls.certificate": "ok", "tls.expiry": "ok", "tls.authority": "ok",
           "pki.book": "ok", "pki.key": "ok", "pki.agents": "ok"})
    check("nothing runs and nothing is stored", states(found, "collector", "data.write", "store.segments", "fleet.answers"),
          {"collector": "skipped", "data.write": "warning", "store.segments": "skipped", "fleet.answers": "skipped"})
    ensure("looking has made nothing", not os.path.exists(fleet.path("data")))


def faults(fleet):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        found = doctor(fleet, expect=1, listen__query="127.0.0.1:%d" % other.getsockname()[1])
        check("a port that another program has", found["listen.query"]["state"], "failed")
        found = doctor(fleet, expect=1, listen__ingest="192.0.2.1:7420")
        check("an address of another machine", found["listen.ingest"]["state"], "failed")
    key = fleet.path("key")
    shutil.copy(fleet.tls("collector")["key"], key)
    os.chmod(key, 0o644)
    for path, state in ((key, "failed"), (fleet.tls("collector")["key"], "ok"), (fleet.path("nowhere"), "failed")):
        found = doctor(fleet, expect=None, listen__console="127.0.0.1:0", console__tokens=path)
        check("tokens of the console: " + os.path.basename(path), found["console.tokens"]["state"], state)
    found = doctor(fleet, expect=1, tls__key=key)
    check("a key that others can read", states(found, "tls.key", "tls.certificate"),
          {"tls.key": "failed", "tls.certificate": "skipped"})
    found = doctor(fleet, expect=1, tls__cert=fleet.tls("operator")["cert"], tls__key=fleet.tls("operator")["key"])
    check("a certificate that is no server's", found["tls.certificate"]["state"], "failed")
    fleet.issue("collector", "short", "pki", None, "--life", "5d")
    short = fleet.tls("short")
    found = doctor(fleet, expect=1, tls__cert=short["cert"], tls__key=short["key"])
    ensure("a certificate that ends within days", found["tls.expiry"]["state"] == "failed" and
           "4 more days" in found["tls.expiry"]["detail"], found["tls.expiry"])
    os.mkdir(fleet.path("data"))
    for folder, name in ("pki", "pki.folder"), ("data", "data.folder"):
        os.chmod(fleet.path(folder), 0o777)
        found = doctor(fleet)[name]
        check("a folder anybody may write in", found["state"], "warning")
        ensure("and how to mend it", "chmod 700 " + fleet.path(folder) in found["fix"], found)
        os.chmod(fleet.path(folder), 0o700)
        check("is mended", doctor(fleet)[name]["state"], "ok")
    os.rmdir(fleet.path("data"))
    check("a book that is not there", doctor(fleet, expect=1, pki__dir=fleet.path("none"))["pki.book"]["state"], "failed")
    check("more hosts than descriptors", doctor(fleet, limits__hosts=100000)["limits.files"]["state"], "warning")
    check("fewer hosts than descriptors", doctor(fleet, limits__hosts=1000)["limits.files"]["state"], "ok")
    found = doctor(fleet, expect=1, no_such_key="1")
    ensure("a setting that is none", found["config"]["state"] == "failed" and len(found) == 1, found)
    fleet.run("procfleet-collector", "doctor", "--cert", "x.pem", expect=2)
    fleet.run("procfleet-collector", "doctor", "--format", "poem", expect=2)


def asked(fleet):
    """Beside a collector that runs; warnings are exit code 0."""
    tls = fleet.tls("operator")
    return doctor(fleet, "--cert", tls["cert"], "--key", tls["key"])


def says(found, what, detail, fix):
    check(what, (found["state"], found["detail"]), ("warning", detail))
    ensure("with what to do about it", fix in found["fix"], found)


def stranger(fleet, name, ahead):
    """A host whose wall clock is so many seconds ahead, known to within the exchange that measures it."""
    agent = Agent(fleet, name, enrolled(fleet, name))
    agent.ahead = int(ahead * S)
    check("%s is greeted" % name, agent.hello(), (OK, []))
    check("and measured", agent.heartbeat(), (OK, []))
    check("and has sent", agent.push(agent.batch(1))[:2], (OK, False))
    return agent


def skewed(fleet):
    strangers = [stranger(fleet, "exact", 0), stranger(fleet, "hasty", 0.5)]
    check("half a second is nothing", asked(fleet)["fleet.clocks"]["detail"], "no clock is off by a second or more")
    strangers.append(stranger(fleet, "late", -3600))
    says(asked(fleet)["fleet.clocks"], "one clock is wrong", "1 host's clock is off by a second or more: late", "run a time service there")
    strangers.append(stranger(fleet, "early", 1.5))
    says(asked(fleet)["fleet.clocks"], "another, the other way", "2 hosts' clocks are off by a second or more: early, late",
         "'procfleet hosts' shows by how much")
    strangers[-2].ahead = 0
    check("the first is set right", strangers[-2].heartbeat(), (OK, []))
    says(asked(fleet)["fleet.clocks"], "and is no longer named", "1 host's clock is off by a second or more: early", "run a time service")
    for i in range(5):
        strangers.append(stranger(fleet, "wrong-%d" % i, 7200))
    says(asked(fleet)["fleet.clocks"], "five are named", "6 hosts' clocks are off by a second or more: early, wrong-0, wrong-1, wrong-2, "
         "wrong-3, …", "run a time service")
    return strangers  # connected for as long as they are kept


def cloned(fleet):
    """A machine copied before it started, and one copied while it ran: the copy has its boot."""
    twin = stranger(fleet, "twin", 0)
    other = Agent(fleet, "twin", twin.host)
    check("another boot under the same identity", other.hello(), (OK, []))
    begun = time.monotonic()
    first = stranger(fleet, "double", 0)
    check("a boot that takes over may be a restart", asked(fleet)["fleet.clones"]["detail"], "no identity is used twice")
    second = Agent(fleet, "double", first.host, first.boot)
    check("the same boot again", second.hello(), (OK, []))
    check("has a batch of its own under the first one's number", second.push(second.batch(1))[0], ALREADY_EXISTS)
    says(asked(fleet)["fleet.clones"], "one identity is used twice", "1 identity is used by more than one machine: double",
         "procfleet-agent enroll --force")
    time.sleep(max(0, begun + GRACE + 1 - time.monotonic()))
    check("the older boot is alive", twin.heartbeat(), (OK, []))
    check("so the later one is refused", other.heartbeat(), (FAILED_PRECONDITION, ["clone"]))
    says(asked(fleet)["fleet.clones"], "both are told", "2 identities are used by more than one machine: double, twin",
         "enrol the copy anew: procfleet-agent enroll --force")
    tls = fleet.tls("operator")
    _, text, _ = fleet.run("procfleet-collector", "doctor", "--cert", tls["cert"], "--key", tls["key"], *settings(fleet))
    ensure("for people, the fix below", "double, twin" in text and "procfleet-agent enroll --force" in text, text)
    return [twin, other, first, second]


def running(fleet):
    fleet.start_collector()
    agent = fleet.start_agent("patient")
    fleet.wait_for("the host", lambda: "patient" in fleet.hosts())
    found = asked(fleet)
    check("beside a collector that runs", states(found, "collector", "listen.ingest", "listen.query", "listen.events",
                                                 "listen.enroll", "data.write", "fleet.answers", "fleet.clones"),
          {"collector": "ok", "listen.ingest": "ok", "listen.query": "ok", "listen.events": "ok", "listen.enroll": "ok",
           "data.write": "ok", "fleet.answers": "ok", "fleet.clones": "ok"})
    check("it has asked for the console's page", (found["fleet.console"]["state"], found["console.tokens"]["state"]), ("ok", "skipped"))
    ensure("it has asked about the fleet", found["fleet.answers"]["detail"] == "the collector answers: 1 host, 1 of them connected",
           found["fleet.answers"])
    found = doctor(fleet, "--cert", fleet.tls("patient")["cert"], "--key", fleet.tls("patient")["key"], expect=1)
    check("an agent may not ask", found["fleet.answers"]["state"], "failed")
    _, text, _ = fleet.run("procfleet-collector", "doctor", *settings(fleet))
    ensure("for people, a line each and the counts at the end", "ok       tls.key" in text and " 0 failed, " in text, text)
    agent.kill()  # it says no farewell
    agent.wait()

    def silent():
        row = asked(fleet)["fleet.silent"]
        return row if row["state"] == "warning" else None

    found = fleet.wait_for("a host to be silent", silent)
    ensure("it names the silent host, and what to look at there", found["detail"] == "1 host is silent: patient" and
           "systemctl status procfleet-agent" in found["fix"], found)
    ensure("and what to do if it is gone for good", "procfleet hosts forget NAME" in found["fix"], found)
    fleet.run("procfleet-collector", "pki", "revoke", "--dir", fleet.path("pki"), "patient")
    fleet.wait_for("it to be expected no more once it is revoked", lambda: asked(fleet)["fleet.silent"]["state"] == "ok")
    seen = fleet.ask("overview", expect=None)[0]
    check("overview counts it apart", (seen["hosts"], seen["silent"], seen["revoked"]), (1, 0, 1))
    kept = skewed(fleet) + cloned(fleet)
    found = asked(fleet)["fleet.answers"]["detail"]
    check("each identity is one host", found, "the collector answers: %d hosts, %d of them connected" % (len(kept) - 1, len(kept) - 2))
    fleet.collector.kill()
    fleet.collector.wait()
    found = doctor(fleet, "--cert", fleet.tls("operator")["cert"], "--key", fleet.tls("operator")["key"], "--collector",
                   "127.0.0.1:" + fleet.ports["query"], expect=1)
    ensure("a collector that does not answer", found["fleet.answers"]["state"] == "failed" and
           "--collector HOST:PORT" in found["fleet.answers"]["fix"], found["fleet.answers"])
    fleet.start_collector()
    check("the collector goes on", fleet.stop(fleet.collector), 0)


def full(fleet):
    check("what may be kept fits the disk", doctor(fleet, retention__total_bytes="1GiB")["data.room"]["detail"].count("up to 1024 MiB"), 1)
    found = doctor(fleet, retention__total_bytes="4096TiB")["data.room"]
    ensure("more may be kept than the disk holds", found["state"] == "warning" and "retention.total_bytes" in found["fix"], found)

    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for program, check_name, where in (("procfleet-collector", "data.write", settings(fleet)),
                                       ("procfleet-agent", "state.write", ["--set", "state_dir=" + fleet.path("data")])):
        done = subprocess.run([os.path.join(BIN, program), "doctor", "--format", "json", *where], stdout=subprocess.PIPE,
                              preexec_fn=no_room, timeout=120)
        found = {r["check"]: r for r in json.loads(done.stdout)}[check_name]
        ensure("%s: room is what helps a full disk" % check_name,
               found["state"] == "failed" and "no space" in found["detail"] and found["fix"].startswith("make room"), found)


def damaged(fleet):
    with open(fleet.path("data", "segments", "manifest"), "wb") as f:
        f.write(b"no list of segments" * 100)
    found = doctor(fleet, expect=1)
    check("a list of segments that is damaged", found["store.segments"]["state"], "failed")


resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
with Fleet() as fleet:
    before(fleet)
    faults(fleet)
    running(fleet)
    full(fleet)
    damaged(fleet)
