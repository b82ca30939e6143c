"""ClickHouse is down for a while, and the collector is killed meanwhile: once what waited is there, the far view has everything, and
answers as the collector's own store does."""

import os
import signal
import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab
from e2e_clickhouse_ask import FORM, neutral

SECONDS = float(os.environ.get("PROCFLEET_SECONDS", 15))  # of the outage
HOSTS = 12


def questions(since, until):
    window = ["--since", since, "--until", until]
    yield ["coverage", *window]
    yield ["top", "--by", "cpu_time", "-n", "50", *window]
    yield ["top", "--group-by", "host", *window]
    yield ["ps", *window]


def ask(fleet, since, until):
    return [(" ".join(q), neutral(fleet.ask(*q, expect=None))) for q in questions(since, until)]


def main():
    with lab.opened() as ch, ChFleet() as fleet:
        fleet.feed(ch, clickhouse__samples="*", clickhouse__view="local")
        since = time.strftime(FORM, time.gmtime(time.time() - 90))
        agents = [Agent(fleet, seed) for seed in range(1, HOSTS + 1)]
        time.sleep(6)
        ch.server.kill()
        time.sleep(SECONDS / 2)
        fleet.collector.send_signal(signal.SIGKILL)
        fleet.collector.wait()
        fleet.start_collector(**{k.replace(".", "__"): v for k, v in fleet.conf.items()})
        time.sleep(SECONDS / 2)
        ch.server.start()
        time.sleep(5)
        for a in agents:
            a.stop()
        for a in agents:
            a.wait()
        end = int(time.time()) + 2
        until = time.strftime(FORM, time.gmtime(end))
        check("every tick is there, once", drained(fleet, ch.server, agents, 240), (0, 0))
        ensure("some of it was announced again", ch.server.number("SELECT max(again) FROM batch") == 1)
        time.sleep(max(0, end + 0.5 - time.time()))  # of a window that is not over coverage counts what has passed
        own = ask(fleet, since, until)
        fleet.stop(fleet.collector)
        fleet.feed(ch, data_dir=fleet.path("other"), collector__name="b", clickhouse__view="far")
        for (q, want), (_, got) in zip(own, ask(fleet, since, until)):
            check("the same answer from ClickHouse: " + q, got, want)
        rows = fleet.ask("coverage", "--since", since, "--until", until, expect=None)
        check("nothing is missing", [(row["lost_ticks"], row["missing_batches"]) for row in rows], [(0, 0)] * HOSTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
