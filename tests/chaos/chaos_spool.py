"""The agent's spool between a collector that is away and an agent that is killed.

An agent works without a collector and is killed with SIGKILL at random moments. What its segments hold then, read here by a
reader of its own, must be in the collector's log once each after the collector has come; what happens meanwhile must not wait
behind it. One segment is cut at a random byte, another gets a flipped bit. PROCFLEET_KILLS says how many times the agent is killed
(6), PROCFLEET_SEED what chance does (printed)."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import Fleet, check, ensure  # noqa: E402
from spool_file import begin, records, segments  # noqa: E402
from wal import logged  # noqa: E402

KILLS = int(os.environ.get("PROCFLEET_KILLS", "6"))
SEED = int(os.environ.get("PROCFLEET_SEED", str(random.SystemRandom().randrange(1 << 32))))
FAST = {"sampling__rate_hz": "10", "batch__samples": "2", "batch__max_age": "200ms"}


def start(fleet):
    args = fleet.agent_args("spool", **FAST)
    return fleet.start("procfleet-agent", "run", "--level", "L1", "--for", "1h", *args, log="agent.log")


def spooled(spool):
    return {(stream, seq) for path in segments(spool) for stream, seq, _, _ in records(path)}


def run_and_kill(fleet, spool, rng):
    before = spooled(spool)
    agent = start(fleet)
    fleet.wait_for("a new batch on disk", lambda: spooled(spool) - before)
    time.sleep(rng.uniform(0, 3))
    agent.kill()
    agent.wait()
    return spooled(spool)


def damage(spool, rng):
    """Cuts the newest segment, which costs what was behind the cut, and flips a bit in an older one, which costs one batch."""
    files = [f for f in segments(spool) if records(f)]
    cut = rng.randrange(begin(files[-1]), os.path.getsize(files[-1]))
    lost = {(stream, seq) for stream, seq, at, n in records(files[-1]) if at + n > cut}
    os.truncate(files[-1], cut)
    victim = rng.choice(records(files[0]))
    data = bytearray(open(files[0], "rb").read())
    data[victim[2] + rng.randrange(victim[3])] ^= 1 << rng.randrange(8)
    open(files[0], "wb").write(bytes(data))
    return lost, victim[:2]


def main():
    rng = random.Random(SEED)
    print("seed", SEED)
    with Fleet() as fleet:
        spool = fleet.path("agents", "spool", "spool")
        fleet.start_collector()  # picks its ports, and goes
        fleet.stop(fleet.collector)
        held = set()
        for _ in range(KILLS):
            held = run_and_kill(fleet, spool, rng)
        check("one stream over all restarts", len({stream for stream, _ in held}), 1)
        cut, flipped = damage(spool, rng)
        agent = start(fleet)  # under a new stream: the numbers that were cut off are not given again
        fleet.wait_for("a batch of after the damage", lambda: spooled(spool) - held)
        fleet.start_collector()
        want = held - cut - {flipped}
        fleet.wait_for("all of the backlog", lambda: want <= set(logged(fleet.path("data"))))
        check("the agent stops in order", fleet.stop(agent), 0)
        got = logged(fleet.path("data"))
        check("nothing is stored twice", len(got), len(set(got)))
        ensure("what was damaged did not come", flipped not in got)
        check("what was cut off gave its numbers to nobody else", {b for b in got if b[0] in {s for s, _ in held}} - held, set())
        first_new = min(i for i, b in enumerate(got) if b not in held)
        ensure("what happens now does not wait behind the backlog (%d held, new after %d)" % (len(want), first_new),
               len(want) >= KILLS and first_new <= 4)  # three were out of the files already, two are under way at once
        fleet.collector.kill()


main()
