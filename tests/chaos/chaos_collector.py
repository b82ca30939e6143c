"""Three agents push while the collector is killed with -9 again and again: every acknowledged batch is in the answers, once.

PROCFLEET_KILLS (10) and PROCFLEET_SEED (1) in the environment."""

import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import Fleet, check, ensure  # noqa: E402

KILLS = int(os.environ.get("PROCFLEET_KILLS", "10"))
SEED = int(os.environ.get("PROCFLEET_SEED", "1"))
NAMES = ["one", "two", "three"]


def acknowledged(text):
    """What the agent itself counted: its last line tells the batches acknowledged."""
    found = re.findall(r"acknowledged=(\d+)", text)
    return int(found[-1]) if found else None


random.seed(SEED)
print("seed", SEED, "kills", KILLS)
with Fleet() as fleet:
    fleet.start_collector()
    agents = {n: fleet.start_agent(n, batch__max_age="200ms", sampling__rate_hz="10") for n in NAMES}
    fleet.wait_for("three hosts", lambda: len(fleet.hosts()) == 3)
    for kill in range(KILLS):
        before = {n: h["batches"] for n, h in fleet.hosts().items()}
        if kill == KILLS // 2:  # an agent restarted in the same boot goes on with its stream; it sends nothing twice
            fleet.stop(agents["two"])
            first_life = acknowledged(fleet.log("agent-two.log"))
            agents["two"] = fleet.start_agent("two", batch__max_age="200ms", sampling__rate_hz="10")
        pause = random.uniform(0.05, 1.5)
        fleet.wait_for("batches to flow again", lambda: fleet.hosts()["one"]["batches"] > before["one"])
        try:
            fleet.collector.wait(pause)
        except subprocess.TimeoutExpired:
            pass
        ensure("the collector lives until it is killed", fleet.collector.poll() is None, fleet.log("collector.log")[-2000:])
        fleet.collector.kill()
        fleet.collector.wait()
        fleet.start_collector()
        after = fleet.hosts()
        for n in NAMES:
            ensure("kill %d: %s kept what was answered before" % (kill + 1, n), after[n]["batches"] >= before[n],
                   (before[n], after[n]))
    for n in NAMES:
        check("%s ends in order" % n, fleet.stop(agents[n]), 0)
    hosts = fleet.hosts()
    for n in NAMES:
        told = acknowledged(fleet.log("agent-%s.log" % n))
        ensure("%s tells what was acknowledged" % n, told, fleet.log("agent-%s.log" % n)[-500:])
        if n == "two":
            told += first_life
        check("%s: stored exactly what was acknowledged" % n, hosts[n]["batches"], told)
        check("%s: no sequence number is missing" % n, hosts[n]["gaps"], 0)
    history = fleet.ask("history", "--host", "one", "--pid", "1", "--metric", "thread_count", "--since", "1h", "-n", "4000",
                        expect=None)
    times = [r["time"] for r in history]
    check("no sample is there twice", len(times), len(set(times)))
