"""The same questions of a collector's own store, of ClickHouse through a collector that has nothing, and of both: equal answers."""

import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab

FORM = "%Y-%m-%dT%H:%M:%SZ"
OWN = ("read from windows", "samples are gone")  # notes of what an answer was read from


def questions(since, until):
    window = ["--since", since, "--until", until]
    yield ["hosts"]
    for by in ("cpu_time", "working_set_size", "read_bytes"):
        yield ["top", "--by", by, "-n", "50", *window]
    yield ["top", "--group-by", "image", *window]
    yield ["ps", "--host", "gen-1", *window]
    yield ["tree", "--host", "gen-2"]
    yield ["coverage", *window]
    yield ["events", *window]


HOST = ("host", "id", "boot", "state", "source", "cpus", "processes", "first_time", "last_time", "lost_events")


def neutral(answer):
    """Without what each collector knows by itself: its sessions, what was read, what its own stages counted."""
    if isinstance(answer, list):
        return [{k: row[k] for k in HOST} if "boot" in row else row for row in answer]
    return {k: [n for n in v if not n.startswith(OWN)] if k == "notes" else v for k, v in answer.items()}


def answers(fleet, since, until):
    return [(" ".join(q), neutral(fleet.ask(*q, expect=None))) for q in questions(since, until)]


def main():
    with lab.opened() as ch, ChFleet() as fleet:
        fleet.feed(ch, clickhouse__samples="*", clickhouse__view="local")
        since = time.strftime(FORM, time.gmtime(time.time() - 60))
        agents = [Agent(fleet, seed) for seed in (1, 2, 3)]
        time.sleep(8)
        for a in agents:
            a.stop()
        for a in agents:
            a.wait()
        end = int(time.time()) + 2
        until = time.strftime(FORM, time.gmtime(end))
        check("every tick is there, once", drained(fleet, ch.server, agents), (0, 0))
        time.sleep(max(0, end + 0.5 - time.time()))  # of a window that is not over coverage counts what has passed
        own = answers(fleet, since, until)
        fleet.stop(fleet.collector)
        fleet.feed(ch, data_dir=fleet.path("other"), collector__name="b")  # auto: another one feeds the database
        for (q, want), (_, got) in zip(own, answers(fleet, since, until)):
            check("the same answer from ClickHouse: " + q, got, want)
        ch.server.kill()
        code, out, err = fleet.cli("top", "--since", since, "--until", until, expect=None)
        ensure("without ClickHouse an empty collector has nothing", "gen-1" not in out, out + err)
    return 0


if __name__ == "__main__":
    sys.exit(main())
