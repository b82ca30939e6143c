"""Collector, replicas and ZooKeeper are killed with -9 at random moments while agents send: afterwards every tick is there, once.

    chaos_clickhouse.py [--minutes M] [--replicas N] [--seed S]

Every batch that an agent was told is stored has one ledger row that says so, and counts once; every sum equals what the agents made.
PROCFLEET_SECONDS of trouble (12), each kind of kill at least once.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab, sound

SECONDS = float(os.environ.get("PROCFLEET_SECONDS", "12"))


class Trouble:
    def __init__(self, fleet, ch, rng):
        self.fleet, self.ch, self.rng, self.kills = fleet, ch, rng, {"collector": 0, "server": 0, "keeper": 0}
        self.down = []  # (when it comes back, what)

    def collector(self):
        self.kills["collector"] += 1
        self.fleet.collector.send_signal(signal.SIGKILL)
        self.fleet.collector.wait()
        time.sleep(self.rng.uniform(0, 0.5))
        self.fleet.start_collector(**{k.replace(".", "__"): v for k, v in self.fleet.conf.items()})

    def process(self, kind, p):
        if p.process:
            self.kills[kind] += 1
            p.kill()
            self.down.append((time.monotonic() + self.rng.uniform(0.2, 4), p))

    def revive(self, all_of_them=False):
        now = time.monotonic()
        due = [d for d in self.down if all_of_them or d[0] <= now]
        self.down = [d for d in self.down if d not in due]
        # A server of 18.16 ends at once when it cannot reach ZooKeeper: that first.
        for _, p in sorted(due, key=lambda d: d[1] is not self.ch.keeper):
            if p is not self.ch.keeper and self.ch.keeper and not self.ch.keeper.process:
                self.down.append((now + 1, p))
            else:
                p.start()

    def run(self, seconds):
        end = time.monotonic() + seconds
        first = [0.0, 0.5, 0.9]
        self.rng.shuffle(first)
        while time.monotonic() < end or first:
            time.sleep(self.rng.uniform(0.3, 3))
            self.revive()
            what = first.pop() if first else self.rng.random()
            if what < 0.45:
                self.collector()
            elif what < 0.85 or not self.ch.keeper:
                self.process("server", self.rng.choice(self.ch.servers))
            else:
                self.process("keeper", self.ch.keeper)
        while self.down:
            self.revive(True)


def is_set_up(server):
    try:
        return server.number("SELECT count() FROM schema") > 0
    except OSError:
        return False


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=SECONDS / 60)
    options.add_argument("--replicas", type=int, default=2 if shutil.which("java") else 1)
    options.add_argument("--seed", type=int, default=int(os.environ.get("PROCFLEET_SEED", random.SystemRandom().randrange(1 << 32))))
    args = options.parse_args()
    print("seed", args.seed, flush=True)
    with lab.opened(args.replicas) as ch, ChFleet() as fleet:
        fleet.feed(ch)
        agents = [Agent(fleet, seed) for seed in range(1, 9)]
        # A server killed amid CREATE TABLE leaves a replica in ZooKeeper that only people can take away (docs/clickhouse.md).
        for server in ch.servers:
            fleet.wait_for("the tables", lambda s=server: is_set_up(s))
        trouble = Trouble(fleet, ch, random.Random(args.seed))
        trouble.run(args.minutes * 60)
        for a in agents:
            a.stop()
        for a in agents:
            a.wait()
        for server in ch.servers:
            missing, doubled = drained(fleet, server, agents, 180)
            batches = server.number("SELECT uniqExact(host_id, stream, seq) FROM batch WHERE kind = 3")
            print("%d missing, %d doubled of %d batches; killed: %s" % (missing, doubled, batches, trouble.kills))
            check("every tick is there, once", (missing, doubled), (0, 0))
            sound(server)
        ensure("something was killed", min(trouble.kills["collector"], trouble.kills["server"]) > 0, trouble.kills)
    return 0


if __name__ == "__main__":
    sys.exit(main())
