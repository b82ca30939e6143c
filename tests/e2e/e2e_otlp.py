"""procfleet-forward otlp: killed at random moments, against a receiver that fails in every way, each event arrives, by one id; sums are
those of the samples."""

import collections
import os
import random
import shutil
import ssl
import subprocess
import sys
import time

from fleet import ROOT, Fleet, check, ensure
from otlp_receiver import Receiver, same_as

HOSTS = ("web-1", "db-1")
METRICS = "cpu_time,working_set_size,thread_count,read_bytes"


def key(e):
    return (e["host"], e["time"], e["kind"], e.get("pid"))


class Forwarder:
    def __init__(self, fleet, url, name="otlp", **settings):
        self.fleet, self.process, self.log = fleet, None, name + ".log"
        tls = fleet.tls("subscriber")
        self.conf = {"otlp.url": url, "collector.address": "127.0.0.1:" + fleet.ports["query"], "tls.ca": tls["ca"],
                     "tls.cert": tls["cert"], "tls.key": tls["key"], "state_dir": fleet.path(name), "interval": "1s",
                     "metrics": METRICS, "from_oldest": "true", "otlp.timeout": "5s", "subscription": name}
        self.conf.update({k.replace("__", "."): v for k, v in settings.items()})

    def args(self):
        return ["otlp"] + [x for k, v in self.conf.items() for x in ("--set", "%s=%s" % (k, v))]

    def start(self):
        self.process = self.fleet.start("procfleet-forward", *self.args(), log=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()


def truth(fleet):
    """With an end: without one a window ends with the batch that was made last, as its host's clock is estimated, and where that
    estimate was set back between two batches the events of the second one lie behind it."""
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    return collections.Counter(key(e) for e in fleet.ask("events", "-n", "100000", "--since", "1h", "--until", end, expect=None))


def rounds(fleet, forwarder, receiver):
    """Kills and failures while processes come and go."""
    children = []
    for mode in ("ok", "down", "lost reply", "busy", "moved", "reset", "page", "error", "endless", "locked"):
        with receiver.lock:
            receiver.mode = mode
        forwarder.start()
        children += [subprocess.Popen(["sleep", "0.3"]) for _ in range(5)]
        time.sleep(random.uniform(0.2, 1.2))  # the random moment
        forwarder.kill()
    for child in children:
        child.wait()


def events_are_whole(fleet, receiver):
    def ids():
        with receiver.lock:
            out = {}
            for host, a, r in receiver.records:
                out.setdefault(a["log.record.uid"], set()).add(
                    (host, r["time_unix_nano"], r["event_name"].partition(".")[2], a.get("process.pid")))
        return out

    wanted = truth(fleet)
    fleet.wait_for("every event", lambda: len(ids()) >= sum(wanted.values()))
    got = ids()
    check("an id has one event", [i for i, events in got.items() if len(events) != 1], [])
    count = collections.Counter(next(iter(events)) for events in got.values())
    differ = [e for e in count | wanted if count[e] != wanted[e]]
    check("as many ids as events %s" % [(e, count[e], wanted[e]) for e in differ[:5]], (len(got), sum(wanted.values())),
          (sum(wanted.values()),) * 2)
    check("each event by its kind", collections.Counter(k[2] for k in count.elements()),
          collections.Counter(k[2] for k in wanted.elements()))
    check("and by its host and process", sorted((k[0], k[2], k[3] or 0) for k in count.elements()),
          sorted((k[0], k[2], k[3] or 0) for k in wanted.elements()))
    with receiver.lock:
        again = len(receiver.records) - len(got)
    print("%d events, %d of them came again after a kill" % (len(got), again))
    ensure("there were some", len(got) > 60, len(got))


def metrics_are_sums(fleet, receiver):
    with receiver.lock:
        points = list(receiver.points)
    series = {}
    for host, name, kind, unit, a, p in points:
        at = series.setdefault((host, name, kind, unit, a.get("process.executable.name")), {})
        value = (p["as_int"], p.get("start_time_unix_nano"))
        check_same = at.setdefault(p["time_unix_nano"], value)
        if check_same != value:
            check("a point that comes again is the same: %s %s" % (host, name), value, check_same)
    names = {(name, kind, unit) for _, name, kind, unit, _ in series}
    for of in ("host", "program"):
        for metric in (("cpu_time", "sum", "ns"), ("working_set_size", "gauge", "By"), ("thread_count", "gauge", "1"),
                       ("processes", "gauge", "1")):
            ensure("%s of %s" % (metric[0], of), ("procfleet.%s.%s" % (of, metric[0]),) + metric[1:] in names, names)
    for (host, name, kind, _, program), at in series.items():
        if kind != "sum":
            continue
        rising = [(v[1], t, v[0]) for t, v in sorted(at.items())]
        for before, after in zip(rising, rising[1:]):
            if before[0] == after[0] and after[2] < before[2]:
                check("a sum never falls: %s %s %s" % (host, name, program), after, before)
    for (host, name, _, _, _), at in series.items():
        if name not in ("procfleet.host.working_set_size", "procfleet.host.processes"):
            continue
        parts = collections.Counter()
        for (h, n, _, _, _), values in series.items():
            if h == host and n == name.replace("host", "program"):
                for t, v in values.items():
                    parts[t] += v[0]
        wrong = {t: (v[0], parts[t]) for t, v in at.items() if parts[t] != v[0]}
        check("a host is the sum of its programs: %s of %s" % (name, host), wrong, {})
    return series


def agrees_with_history(fleet, series, name, pid):
    """A program of which there is one process: its sums are the process's samples, to the nanosecond."""
    rows = fleet.ask("history", "--host", HOSTS[0], "--pid", str(pid), "--since", "1h", "-m", "cpu_time,working_set_size", "-n", "100000",
                     expect=None)
    samples, cpu = {}, 0
    for r in sorted(rows, key=lambda r: r["time"]):
        cpu += r.get("cpu_time") or 0  # what it grew by since the sample before
        samples[r["time"]] = cpu
    sums = series[(HOSTS[0], "procfleet.program.cpu_time", "sum", "ns", name)]
    matched = [(value, samples[t]) for t, (value, _) in sorted(sums.items()) if t in samples]
    ensure("samples of %s were found again" % name, len(matched) >= 4, (len(matched), len(sums), len(samples)))
    check("its sums grow as its samples do", {value - cpu for value, cpu in matched}, {matched[0][0] - matched[0][1]})
    ensure("and it did something", matched[-1][0] > matched[0][0], matched)


def secrets_and_tls(fleet):
    """Headers of a file, a client's certificate, an authority of ours; and what is refused for good."""
    issue = fleet.issue("collector", "receiver", "pki", None, "--dns", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issue["cert"], issue["key"])
    context.load_verify_locations(issue["ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = Receiver(tls=context)
    headers = fleet.path("headers")
    with open(headers, "w") as f:
        f.write("# of the tenant\nAuthorization: Bearer s3cret\nX-Tenant: lab\n")
    client = fleet.tls("operator")
    forwarder = Forwarder(fleet, "https://127.0.0.1:%d/" % receiver.port, "tls", otlp__ca=issue["ca"], otlp__cert=client["cert"],
                          otlp__key=client["key"], otlp__headers_file=headers, send="logs")
    _, _, err = fleet.run("procfleet-forward", *forwarder.args(), expect=1)
    ensure("a file of secrets is private", "chmod 600" in err, err)
    os.chmod(headers, 0o600)
    receiver.mode = "refuse"
    forwarder.start()
    fleet.wait_for("it to be refused", lambda: "refused" in fleet.log(forwarder.log))
    ensure("what was lost, and what the server said", 'status=400' in fleet.log(forwarder.log) and '"no good"' in fleet.log(forwarder.log),
           fleet.log(forwarder.log))
    ensure("headers were sent", receiver.headers[0].get("Authorization") == "Bearer s3cret" and receiver.headers[0]["X-Tenant"] == "lab",
           receiver.headers[0])
    receiver.mode = "partial"
    agent = fleet.start_agent(HOSTS[0], batch__max_age="300ms")
    fleet.wait_for("what is partly taken", lambda: "partial success" in fleet.log(forwarder.log))
    ensure("it says how many, and why", "rejected=" in fleet.log(forwarder.log) and '"too much"' in fleet.log(forwarder.log))
    check("it ends well", Fleet.stop(forwarder.process), 0)
    Fleet.stop(agent)
    ensure("and counts", "refused=" in fleet.log(forwarder.log).splitlines()[-1], fleet.log(forwarder.log))
    ensure("and what had no room", "left_out_rows=0" in fleet.log(forwarder.log).splitlines()[-1], fleet.log(forwarder.log))
    ensure("secrets are not in its log", "s3cret" not in fleet.log(forwarder.log))
    receiver.stop()


def settings(fleet):
    forwarder = Forwarder(fleet, "http://192.0.2.1:4318")
    _, _, err = fleet.run("procfleet-forward", *forwarder.args(), expect=1)
    ensure("plain http to another machine is refused", "use https://" in err, err)
    for setting, word in (("otlp.url", "https://HOST:4318"), ("metrics=nonsense", "no metric"), ("events=nonsense", "no kind"),
                          ("otlp.url=https://x/?token=y", "otlp.headers_file"), ("send=traces", "logs and metrics"), ("subscription=a/b", "letters"), ("state_dir=x", "absolute")):
        k, _, v = setting.partition("=")
        args = Forwarder(fleet, "http://127.0.0.1:1", **{k.replace(".", "__"): v}).args()
        _, _, err = fleet.run("procfleet-forward", *args, expect=2)
        ensure("wrong: %s" % setting, word in err, err)
    tls = fleet.tls("operator")
    forwarder = Forwarder(fleet, "http://127.0.0.1:1", "role", tls__cert=tls["cert"], tls__key=tls["key"])
    _, _, err = fleet.run("procfleet-forward", *forwarder.args(), expect=4)
    ensure("a certificate of another role is refused", "PERMISSION_DENIED" in err, err)


random.seed(int(os.environ.get("PROCFLEET_SEED", "0")) or None)
check("the schema of the tree is the published one", same_as(os.path.join(ROOT, "collector", "forward", "otlp.proto")), [])
with Fleet() as fleet:
    fleet.start_collector()
    settings(fleet)
    receiver = Receiver()
    forwarder = Forwarder(fleet, "http://127.0.0.1:%d" % receiver.port)
    forwarder.start()
    name = "busy-%d" % os.getpid()  # of which there is one process
    shutil.copy("/bin/sh", fleet.path(name))
    busy = subprocess.Popen(["nice", "-n", "19", fleet.path(name), "-c", "while :; do :; done"])
    fleet.processes.append(busy)
    fleet.wait_for("it to be ready", lambda: " ready " in fleet.log(forwarder.log))
    agents = [fleet.start_agent(name, batch__max_age="300ms") for name in HOSTS]
    fleet.wait_for("metrics of both", lambda: {p[0] for p in receiver.points} == set(HOSTS))
    forwarder.kill()
    rounds(fleet, forwarder, receiver)
    receiver.mode = "busy"
    said = fleet.log(forwarder.log).count("failing")
    forwarder.start()
    fleet.wait_for("it to say that it fails", lambda: fleet.log(forwarder.log).count("failing") > said)
    receiver.mode = "ok"
    fleet.wait_for("and that it does not any more", lambda: "taken again" in fleet.log(forwarder.log))
    other = Forwarder(fleet, "http://127.0.0.1:%d" % receiver.port)
    _, _, err = fleet.run("procfleet-forward", *other.args(), expect=1)
    ensure("a second one with its state is refused", "another program runs" in err, err)
    time.sleep(2.5)
    for agent in agents:
        check("an agent ends in order", Fleet.stop(agent), 0)
    events_are_whole(fleet, receiver)
    check("it ends well", Fleet.stop(forwarder.process), 0)
    check("everything could be decoded", receiver.broken, [])
    series = metrics_are_sums(fleet, receiver)
    agrees_with_history(fleet, series, name, busy.pid)
    secrets_and_tls(fleet)
    receiver.stop()
sys.exit(0)
