"""A new authority takes the place of the old one while agents send: first both are believed, then the new one issues, then the
collector shows its new certificate, then the old one goes. Nobody is cut off, no batch is lost, and who was revoked under the
old authority stays so. docs/security.md tells operators these steps."""

import json
import os
import shutil
import sys

from fleet import Fleet, check, ensure

AGENTS = ("by-hand", "by-renewal")


def read(*paths):
    text = ""
    for path in paths:
        with open(path) as f:
            text += f.read()
    return text


def put(path, text):
    """As deployment tools do: whole or not at all."""
    with open(path + ".put", "w") as f:
        os.chmod(path + ".put", 0o600)
        f.write(text)
    os.replace(path + ".put", path)


class Rotating(Fleet):
    def tls(self, name, out=None):
        """Whose name ends in -new believes the new authority."""
        found = super().tls(name, out)
        return dict(found, ca=self.path("tls", name, "ca.pem")) if name.endswith("-new") else found


class Site:
    def __init__(self, fleet):
        self.fleet = fleet
        self.old, self.new = fleet.path("pki"), fleet.path("pki-new")
        self.believed = fleet.path("tls", "believed.pem")
        put(self.believed, read(self.ca(self.old)))

    @staticmethod
    def ca(directory):
        return os.path.join(directory, "ca.pem")

    def start(self, pki, life="1h"):
        self.fleet.start_collector(tls__ca=self.believed, pki__dir=pki, pki__cert_life=life)

    def settings(self, name):
        return [a for kv in (("state_dir", self.fleet.path("agents", name)), ("identity.name", name), ("batch.max_age", "1s"),
                             ("collector.addresses", "127.0.0.1:" + self.fleet.ports["ingest"]),
                             ("collector.enroll_address", "127.0.0.1:" + self.fleet.ports["enroll"]))
                for a in ("--set", "%s=%s" % kv)]

    def file(self, name, what):
        return self.fleet.path("agents", name, "tls", what)

    def pki(self, directory, *args):
        return self.fleet.run("procfleet-collector", "pki", *args, "--dir", directory)[1]

    def enroll(self, name, directory, *more, expect=0):
        os.makedirs(self.fleet.path("agents", name), exist_ok=True)
        return self.fleet.run("procfleet-agent", "enroll", "--token", self.pki(directory, "token", "create", *more).strip(),
                              *self.settings(name), expect=expect)[2]

    def run_agent(self, name):
        return self.fleet.start("procfleet-agent", "run", *self.settings(name), log="agent-%s.log" % name)

    def told(self, log, words, change):
        """Does something and waits until a log has one more line with these words."""
        before = self.fleet.log(log).count(words)
        change()
        self.fleet.wait_for("%s in %s" % (words, log), lambda: self.fleet.log(log).count(words) > before, 30)

    def everybody_sends(self, what, who="operator"):
        def batches():
            hosts = json.loads(self.fleet.cli("hosts", "--format", "json", who=who, expect=None)[1])
            return {h["host"]: h["batches"] for h in hosts if h["host"] in AGENTS and h["state"] == "connected"}

        before = self.fleet.wait_for("everybody", lambda: len(batches()) == len(AGENTS) and batches())
        self.fleet.wait_for("data of everybody", lambda: all(batches().get(n, 0) > before[n] + 1 for n in AGENTS))
        print("ok: everybody sends %s" % what)

    def revoked_stays_out(self):
        said = self.fleet.cli("hosts", who="leaver", expect=4)[2]
        ensure("who was revoked is refused, and told what to do", "revoked" in said and "new certificate" in said, said)


def both_are_believed(site):
    """The new authority is made beside the old one. One agent's files are changed by hand."""
    site.pki(site.new, "init", "--name", "new authority")
    both = read(site.ca(site.new), site.ca(site.old))
    site.told("collector.log", "trust reloaded", lambda: put(site.believed, both))
    # Its certificate may be due at the same moment: then it reads all files anew.
    site.told("agent-by-hand.log", "trust re", lambda: put(site.file("by-hand", "ca.pem"), both))
    site.everybody_sends("while both are believed")


def the_new_one_issues(site):
    """Agents that renew get certificates of the new authority; who did not believe it yet does so from then on."""
    fleet = site.fleet
    check("nobody told the other agent", read(site.file("by-renewal", "ca.pem")), read(site.ca(site.old)))
    fleet.stop(fleet.collector)
    renewed = {name: fleet.log("agent-%s.log" % name).count("trust renewed") for name in AGENTS}
    shutil.copy(os.path.join(site.old, "book.db"), os.path.join(site.new, "book.db"))
    site.start(site.new)
    ensure("nobody enrols before the collector shows its new certificate",
           "authority" in site.enroll("too-early", site.new, expect=4))
    for name in AGENTS:
        fleet.wait_for("%s to renew" % name, lambda: fleet.log("agent-%s.log" % name).count("trust renewed") > renewed[name])
    ensure("the other agent has learned it", read(site.ca(site.new)) in read(site.file("by-renewal", "ca.pem")))
    site.everybody_sends("with certificates of the new authority")
    site.revoked_stays_out()


def the_collector_changes(site):
    fleet = site.fleet
    fleet.issue("query", "reader-new", "pki-new")
    new = fleet.issue("collector", "collector", "pki-new", fleet.path("tls", "new"))

    def change():
        for kind in ("key", "cert"):
            put(fleet.tls("collector")[kind], read(new[kind]))

    site.told("collector.log", "trust reloaded", change)
    site.everybody_sends("over the connections that stood", who="reader-new")
    fleet.stop(fleet.collector)
    site.start(site.new)
    site.everybody_sends("over new connections", who="reader-new")
    site.enroll("late", site.new)
    print("ok: hosts enrol again")


def the_old_one_goes(site):
    fleet = site.fleet
    for name in AGENTS:
        site.told("agent-%s.log" % name, "trust reloaded", lambda: put(site.file(name, "ca.pem"), read(site.ca(site.new))))
    site.told("collector.log", "trust reloaded", lambda: put(site.believed, read(site.ca(site.new))))
    fleet.stop(fleet.collector)
    site.start(site.new)
    site.everybody_sends("without the old authority", who="reader-new")
    said = fleet.cli("hosts", expect=4)[2]
    ensure("who was forgotten is refused, and told what to do", "--ca" in said or "--cert" in said, said)


def nothing_was_lost(site, agents):
    fleet = site.fleet
    for agent in agents:
        check("an agent ends in good order", fleet.stop(agent), 0)
    hosts = json.loads(fleet.cli("hosts", "--format", "json", who="reader-new", expect=None)[1])
    for h in hosts:
        if h["host"] in AGENTS:
            check("%s: batches that are missing" % h["host"], h["gaps"], 0)
            ensure("%s: what it sent is there" % h["host"], h["batches"] > 10, h)
    for name in AGENTS:
        with open(fleet.path("agents", name, "status.json")) as f:
            told = json.load(f)
        check("%s: nothing was set aside or dropped" % name, (told["uplink"]["quarantined"], told["queue"]["dropped"]), (0, 0))


with Rotating() as fleet:
    site = Site(fleet)
    site.start(site.old, life="20s")
    fleet.issue("query", "leaver")
    site.pki(site.old, "revoke", "leaver")
    agents = []
    for name in AGENTS:
        site.enroll(name, site.old)
        agents.append(site.run_agent(name))
    site.everybody_sends("before")
    both_are_believed(site)
    the_new_one_issues(site)
    the_collector_changes(site)
    the_old_one_goes(site)
    nothing_was_lost(site, agents)
    check("the collector ends as told", fleet.stop(fleet.collector), 0)
sys.exit(0)
