"""A fleet whose collector feeds a ClickHouse: simulated agents with journals, and what must be in the tables afterwards."""

import os
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import BIN, Fleet, check, ensure, found  # noqa: E402,F401
import lab  # noqa: E402


class Agent:
    """A simulated host (tests/chaos/fleet_agent_main.c); its journal says what it made."""

    def __init__(self, fleet, seed, addresses=None, rate=5, samples=5, processes=20, acks=False):
        self.fleet, self.seed, self.name = fleet, seed, "gen-%d" % seed
        self.args = ["--seed", str(seed), "--keys", fleet.path("pki"), "--spool", fleet.path("spools", self.name), "--rate", str(rate),
                     "--samples", str(samples), "--processes", str(processes)]
        for a in addresses or ["127.0.0.1:" + fleet.ports["ingest"]]:
            self.args += ["--collector", a]
        self.args += ["--acks"] if acks else []
        self.ticks, self.events, self.end, self.acks = {}, 0, None, []  # acks: ns each, when asked for
        self.start()

    def start(self):
        os.makedirs(self.fleet.path("spools"), exist_ok=True)
        with open(self.fleet.path("agent-%s.log" % self.name), "ab") as log:
            self.process = subprocess.Popen([os.path.join(BIN, "tests/fleet-agent"), *self.args], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log)
        self.fleet.processes.append(self.process)
        self.reader = threading.Thread(target=self.read, args=(self.process,), daemon=True)
        self.reader.start()

    def read(self, process):
        for line in process.stdout:
            word, *numbers = line.split()
            if word == b"tick":
                self.ticks[int(numbers[1])] = int(numbers[2])
            elif word == b"event":
                self.events += 1
            elif word == b"ack":
                self.acks.append(int(numbers[0]))
            elif word == b"end":
                self.end = [int(n) for n in numbers]

    def stop(self):
        """Sends what it has, and ends."""
        self.process.terminate()

    def wait(self):
        ensure("%s ends" % self.name, self.process.wait(120) == 0)
        self.reader.join(60)
        check("%s has nothing left to send" % self.name, self.end[1], 0)


class ChFleet(Fleet):
    """`ch`: a lab.Lab that is open."""

    def feed(self, ch, **settings):
        conf = {"clickhouse.urls": ch.urls if isinstance(ch, lab.Lab) else ch, "collector.name": "a", "clickhouse.gather": "200ms",
                "http.refresh": "1s"}
        conf.update({k.replace("__", "."): v for k, v in settings.items()})
        self.conf = conf
        return self.start_collector(**{k.replace(".", "__"): v for k, v in conf.items()})

    def settings(self, **more):
        """For the commands of the collector's program."""
        args = ["--set", "data_dir=" + self.path("data")]
        for k, v in {**self.conf, **{k.replace("__", "."): v for k, v in more.items()}}.items():
            args += ["--set", "%s=%s" % (k, v)]
        return args

    def command(self, name, *args, expect=0, timeout=120, **more):
        return self.run("procfleet-collector", "clickhouse", name, *args, *self.settings(**more), expect=expect, timeout=timeout)

    def metric(self, name):
        text = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % self.ports["http"], timeout=30).read().decode()
        return float(found(r"(?m)^%s (\S+)$" % name, text) or "nan")

    def ready(self):
        return urllib.request.urlopen("http://127.0.0.1:%s/readyz" % self.ports["http"], timeout=30).read().decode().strip()


def hosts(server):
    return dict(server.table("SELECT argMax(name, seen), toString(host_id) FROM host GROUP BY host_id"))


def holds(server, agents):
    """What is in the tables, against what the agents made: (missing, doubled) ticks, and whether all is sound.

    A batch counts when the ledger says that it is stored; its rows are read with FINAL where one was sent twice.
    """
    ids = hosts(server)
    missing = doubled = 0
    for a in agents:
        if a.name not in ids:
            missing += len(a.ticks)
            continue
        host = ids[a.name]
        want = sum(a.ticks.values())
        have = server.number("SELECT sum(n) FROM cell FINAL WHERE host_id = toUUID('%s') AND (stream, seq) IN "
                             "(SELECT stream, seq FROM batch WHERE host_id = toUUID('%s') AND kind = 3)" % (host, host))
        missing += max(0, want - have)
        doubled += max(0, have - want)
    return missing, doubled


def sound(server):
    """What the ledger says of its rows is what the tables have."""
    check("the ledger's rows are the cells'", server.number("SELECT sum(r) FROM (SELECT max(rows) AS r FROM batch WHERE kind = 3 "
                                                            "GROUP BY host_id, stream, seq)"),
          server.number("SELECT sum(n) FROM cell FINAL"))
    check("the ledger's events are the events", server.number("SELECT sum(r) FROM (SELECT max(events) AS r FROM batch WHERE kind = 3 "
                                                              "GROUP BY host_id, stream, seq)"),
          server.number("SELECT count() FROM event FINAL"))
    check("no batch is announced and not stored", server.number(
        "SELECT count() FROM (SELECT max(kind) AS k FROM batch GROUP BY host_id, stream, seq) WHERE k != 3"), 0)


def drained(fleet, server, agents, patience=60):
    """Waits until everything is there."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if holds(server, agents) == (0, 0) and fleet.metric("procfleet_clickhouse_queue_batches") == 0:
                break
        except OSError:
            pass
        time.sleep(0.3)
    return holds(server, agents)
