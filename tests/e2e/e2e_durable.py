"""Durable subscriptions and filled gaps: subscribers and collector are killed at random moments, and each event comes once."""

import collections
import glob
import os
import random
import subprocess
import sys
import time
import urllib.request

from fleet import BIN, Fleet, check, ensure, found, read_json

HOSTS = ("web-1", "db-1")


def key(e):
    return (e["host"], e["time"], e["kind"], e.get("pid"), e.get("start"))


def lines(path):
    """The complete lines of a file of JSON lines."""
    with open(path, "rb") as f:
        return f.read().split(b"\n")[:-1]


class Tail:
    """A tail that prints to a file, and is killed."""

    def __init__(self, fleet, name, *args, who="subscriber"):
        self.fleet, self.name, self.args, self.who = fleet, name, args, who
        self.out, self.state = fleet.path(name + ".jsonl"), fleet.path(name + "-state")
        self.process = None

    def start(self):
        tls = self.fleet.tls(self.who)
        env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + self.fleet.ports["query"],
                   PROCFLEET_EVENTS="127.0.0.1:" + self.fleet.ports["events"], PROCFLEET_CA=tls["ca"],
                   PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"], XDG_STATE_HOME=self.state)
        with open(self.out, "ab") as out, open(self.fleet.path(self.name + ".log"), "ab") as log:
            self.process = subprocess.Popen([os.path.join(BIN, "procfleet"), "tail", *self.args, "--format", "json"],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=env)
        self.fleet.processes.append(self.process)

    def kill(self):
        """Kills, and forgets the lines that the cursor does not stand behind: they come again."""
        self.process.kill()
        self.process.wait()
        done = 0
        for path in glob.glob(os.path.join(self.state, "procfleet", "tail-*.cursor")):
            done = int(open(path).read().split()[2])
        kept = lines(self.out)[:done]
        check("%s printed what its cursor says" % self.name, len(kept), done)
        with open(self.out, "wb") as f:
            f.write(b"".join(line + b"\n" for line in kept))

    def got(self):
        return collections.Counter(key(read_json(line)) for line in lines(self.out))


def connections(fleet, listener):
    """How many the collector counts at one of its listeners."""
    text = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"], timeout=30).read().decode()
    return int(float(found(r'procfleet_listener_connections{listener="%s"} (\S+)' % listener, text) or 0))


def truth(fleet, *args):
    rows = fleet.ask("events", "-n", "100000", "--since", "1h", *args, expect=None)
    return collections.Counter(key(e) for e in rows)


def work():
    """Processes that live long enough to be seen by comparison, too."""
    return [subprocess.Popen(["sleep", "0.4"]) for _ in range(5)]


def same(what, fleet, tail, *args):
    """Waits until the tail has what the collector has, and says what differs."""
    def complete():
        return not truth(fleet, *args) - tail.got()

    fleet.wait_for("%s to have it all" % tail.name, complete)
    wanted, got = truth(fleet, *args), tail.got()
    check("%s: nothing is missing" % what, sorted(wanted - got), [])
    check("%s: nothing came twice, nor anything else" % what, sorted(got - wanted), [])
    ensure("%s: there was something" % what, sum(got.values()) > 20, sum(got.values()))


def rounds(fleet, tails, agents):
    """Kills tails and the collector while processes come and go."""
    children = []
    for i in range(6):
        for tail in tails:
            tail.start()
        children += work()
        time.sleep(random.uniform(0.3, 2.0))  # the random moment
        if i % 3 == 1:
            fleet.collector.kill()
            fleet.collector.wait()
            time.sleep(random.uniform(0, 0.3))
            fleet.start_collector()
        for tail in tails:
            tail.kill()
    for child in children:
        child.wait()
    for agent in agents:
        check("an agent ends in order", Fleet.stop(agent), 0)


random.seed(int(os.environ.get("PROCFLEET_SEED", "0")) or None)
with Fleet() as fleet:
    fleet.issue("query", "part", "pki", None, "--scope", "web-*")
    fleet.issue("subscribe", "scoped", "pki", None, "--scope", "web-*")
    fleet.start_collector()
    live = Tail(fleet, "live")
    live.start()
    fleet.wait_for("the live tail to be there", lambda: connections(fleet, "events") == 1)
    polled = Tail(fleet, "polled", who="operator")
    part = Tail(fleet, "part", who="part")
    polled.start()
    part.start()
    fleet.wait_for("those of operators too", lambda: connections(fleet, "query") == 2)
    durable = Tail(fleet, "durable", "--durable", "audit", "--from-oldest")
    scoped = Tail(fleet, "scoped", "--durable", "web.only", "--from-oldest", who="scoped")
    agents = [fleet.start_agent(name, batch__max_age="300ms") for name in HOSTS]
    rounds(fleet, (durable, scoped), agents)

    durable.start()
    scoped.start()
    same("a durable subscriber, killed at random moments", fleet, durable)
    same("a scoped one", fleet, scoped, "--host", "web-1")
    check("it heard of no other host", {k[0] for k in scoped.got()}, {"web-1"})

    same("an operator's tail, through two kills of the collector", fleet, polled)
    same("that of one with a scope", fleet, part, "--host", "web-1")
    check("it heard of no other host", {k[0] for k in part.got()}, {"web-1"})
    for tail in (polled, part):
        check("%s ends well" % tail.name, Fleet.stop(tail.process), 0)
    check("and leaves no subscription", (fleet.ask("subscriptions"), glob.glob(polled.state + "/**/*.cursor", recursive=True)), ([], []))

    listed = {s["name"]: s for s in fleet.ask("subscriptions", who="subscriber")}
    check("the subscription is listed to its owner alone", sorted(listed), ["audit"])
    check("nothing of it was dropped", listed["audit"]["dropped"], 0)
    check("the durable tail ends in order", Fleet.stop(durable.process), 0)
    fleet.cli("subscriptions", "--remove", "audit", who="subscriber")
    check("it is gone", fleet.ask("subscriptions", who="subscriber"), [])
    Fleet.stop(scoped.process)

    same("the live tail, through two kills of the collector", fleet, live)
    check("it ends well: all that it missed came again", Fleet.stop(live.process), 0)
    fleet.wait_for("it to be gone", lambda: connections(fleet, "events") == 0)
    late = Tail(fleet, "late")
    late.start()
    fleet.wait_for("a tail that hears nobody", lambda: connections(fleet, "events") == 1)
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector()
    fleet.wait_for("it to say so", lambda: "2 of 2 hosts were not heard yet" in fleet.log("late.log"))
    Fleet.stop(late.process)
    ensure("it did ask for something", "connected again" in fleet.log("live.log"), fleet.log("live.log"))
sys.exit(0)
