"""Certificates that live for twenty seconds: twenty agents renew them while they send, and nothing is lost or doubled. One more
begins when its certificate has expired.

Until each has renewed twice, and PROCFLEET_SPAN seconds.
"""

import json
import os
import time

from fleet import Fleet, check, ensure

AGENTS = 20
LIFE = 20
SPAN = int(os.environ.get("PROCFLEET_SPAN", "0"))
TIMES = max(2, SPAN // (2 * LIFE))  # due after two thirds and up to a twelfth more
PATIENCE = SPAN + 180


class Lab(Fleet):
    def begin(self):
        self.start_collector(listen__enroll="127.0.0.1:0", pki__dir=self.path("pki"), pki__cert_life="%ds" % LIFE)

    def settings(self, name):
        conf = {"state_dir": self.path("agents", name), "collector.addresses": "127.0.0.1:" + self.ports["ingest"],
                "collector.enroll_address": "127.0.0.1:" + self.ports["enroll"], "identity.name": name, "batch.max_age": "2s",
                "sampling.rate_hz": "0.5", "process_filter.target_process_names": "procfleet*"}
        return [a for k, v in conf.items() for a in ("--set", "%s=%s" % (k, v))]

    def enroll(self, name):
        _, token, _ = self.run("procfleet-collector", "pki", "token", "create", "--dir", self.path("pki"))
        with open(self.path("token"), "w") as f:
            f.write(token)
        self.run("procfleet-agent", "enroll", "--token-file", self.path("token"), *self.settings(name))

    def told(self, name):
        with open(self.path("agents", name, "status.json")) as f:
            return json.load(f)


with Lab() as lab:
    lab.begin()
    begun = time.monotonic()
    lab.enroll("late")
    late_ends = time.time() + LIFE + 2
    names = ["short-%02d" % i for i in range(AGENTS)]
    agents = {}
    for name in names: # each at once: its time has begun
        lab.enroll(name)
        agents[name] = lab.start("procfleet-agent", "run", *lab.settings(name), log="agent-%s.log" % name)
    lab.wait_for("all hosts", lambda: set(names) <= set(lab.hosts()))
    ensure("%d agents send" % AGENTS, True)

    def renewed():
        dead = [n for n in names if agents[n].poll() is not None]
        if dead:
            check("agents that ended", dead, [])
        return min(lab.told(n)["certificate"]["renewed"] if os.path.exists(lab.path("agents", n, "status.json")) else 0 for n in names)

    time.sleep(max(late_ends - time.time(), 0))
    late = lab.start("procfleet-agent", "run", *lab.settings("late"), log="agent-late.log")
    lab.wait_for("%d renewals of each in %d s" % (TIMES, SPAN), lambda: renewed() >= TIMES and time.monotonic() >= begun + SPAN,
                 PATIENCE)
    lab.wait_for("data of the host whose certificate had expired", lambda: "late" in lab.hosts())
    ensure("its certificate was renewed after it had expired", "trust renewed" in lab.log("agent-late.log"), lab.log("agent-late.log"))
    check("it ends in good order", lab.stop(late), 0)
    check("and has lost nothing", (lab.hosts()["late"]["gaps"], "undelivered=0" in lab.log("agent-late.log")), (0, True))
    told = [lab.told(n)["certificate"] for n in names]
    print("ok: renewed: least %d, most %d; tries that failed: %d" %
          (min(t["renewed"] for t in told), max(t["renewed"] for t in told), sum(t["renew_failed"] for t in told)))
    for n in names: # what it tells is some seconds old
        lab.wait_for("a certificate of now of " + n, lambda n=n: int(lab.told(n)["certificate"]["ends"]) / 1e9 > time.time())

    for name in names:
        check("%s ends in good order" % name, lab.stop(agents[name]), 0)
        log = lab.log("agent-%s.log" % name)
        ensure("%s: everything was delivered" % name, "undelivered=0" in log, log[-600:])
    hosts = lab.hosts()
    for name in names:
        h = hosts[name]
        told = lab.told(name)
        check("%s: no batch is missing, none was set aside" % name, (h["gaps"], told["uplink"]["quarantined"]), (0, 0))
        ensure("%s: all %d batches are stored, once" % (name, told["uplink"]["acknowledged"]),
               h["batches"] == told["uplink"]["acknowledged"], h)
