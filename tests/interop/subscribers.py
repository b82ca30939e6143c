"""The example subscribers of docs/examples, and simulated agents that tell what they made, so that both can be compared."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import BIN, ROOT, ensure, read_json  # noqa: E402

EXAMPLES = {"c": [os.path.join(BIN, "examples", "subscribe")],
            "py": [sys.executable, "-B", os.path.join(ROOT, "docs", "examples", "subscribe.py")]}
KINDS = {1: "process_start", 2: "process_stop"}


class Host:
    """One simulated agent (tests/chaos/fleet_agent_main.c), ten batches a second with about two events each."""

    def __init__(self, fleet, seed):
        self.fleet, self.name, self.journal = fleet, "gen-%d" % seed, fleet.path("journal-%d" % seed)
        args = ["--seed", str(seed), "--keys", fleet.path("pki"), "--collector", "127.0.0.1:" + fleet.ports["ingest"],
                "--spool", fleet.path("spool-%d" % seed), "--rate", "10", "--samples", "1", "--starts-per-hour", "36000"]
        with open(self.journal, "wb") as out, open(fleet.path("gen-%d.log" % seed), "wb") as log:
            self.process = subprocess.Popen([os.path.join(BIN, "tests", "fleet-agent"), *args], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=log)
        fleet.processes.append(self.process)

    def made(self):
        """Its events, by time: (time, kind, pid, start)."""
        events = []
        with open(self.journal) as f:
            for line in f.read().split("\n")[:-1]:
                words = line.split()
                if words[0] == "event":
                    events.append((int(words[2]), KINDS[int(words[3])], int(words[4]), int(words[5])))
        return sorted(events)

    def stop(self):
        """Ends it; everything it made has been acknowledged."""
        self.fleet.stop(self.process)
        with open(self.journal) as f:
            ensure("%s is done" % self.name, f.read().rstrip().split("\n")[-1].startswith("end "))


class Subscriber:
    """One of the examples; its output and what it says are files that outlive it."""

    def __init__(self, fleet, language, name, *args, who="subscriber"):
        self.fleet, self.language, self.name, self.args, self.who = fleet, language, name, args, who
        self.output = fleet.path(name + ".jsonl")
        self.start()

    def start(self):
        tls = self.fleet.tls(self.who)
        env = dict(os.environ, PROCFLEET_CA=tls["ca"], PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"],
                   PROCFLEET_EVENTS="127.0.0.1:" + self.fleet.ports["events"],
                   PROCFLEET_COLLECTOR="127.0.0.1:" + self.fleet.ports["query"])
        durable = "--durable" in self.args
        args = [*self.args, "--output", self.output] if durable else self.args
        with open(self.fleet.path(self.name + ".log"), "ab") as log, open(os.devnull if durable else self.output, "ab") as out:
            self.process = subprocess.Popen([*EXAMPLES[self.language], *args], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        self.fleet.processes.append(self.process)

    def said(self):
        return self.fleet.log(self.name + ".log")

    def lines(self):
        """Whole lines so far, as bytes."""
        if not os.path.exists(self.output):
            return []
        with open(self.output, "rb") as f:
            return f.read().split(b"\n")[:-1]

    def by_host(self):
        """{host: [line]}, in order."""
        found = {}
        for line in self.lines():
            found.setdefault(json.loads(line)["host"], []).append(line)
        return found


def event(line):
    e = read_json(line)
    return e["time"], e["kind"], e["pid"], e["start"]
