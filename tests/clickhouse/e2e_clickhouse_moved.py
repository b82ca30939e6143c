"""Two collectors, one of which is killed: its agents go to the other one. Numbers that one collector lacks and the other has are no
gap and no loss, and nothing counts twice."""

import shutil
import signal
import sys
import time

from chfleet import Agent, ChFleet, check, ensure, holds, hosts, lab
from e2e_clickhouse_ask import FORM

HOSTS = 4


def pair(ch, first, second):
    """Both share the authority of the first."""
    for name in ("pki", "tls"):
        shutil.rmtree(second.path(name), ignore_errors=True)
        shutil.copytree(first.path(name), second.path(name))
    for fleet, name in ((first, "a"), (second, "b")):
        fleet.feed(ch, collector__name=name)


def coverage(fleet, since):
    return fleet.ask("coverage", "--since", since, expect=None)


def main():
    with lab.opened() as ch, ChFleet() as first, ChFleet() as second:
        pair(ch, first, second)
        addresses = ["127.0.0.1:" + fleet.ports["ingest"] for fleet in (first, second)]
        since = time.strftime(FORM, time.gmtime(time.time() - 60))
        agents = [Agent(first, seed, addresses) for seed in range(1, HOSTS + 1)]
        time.sleep(6)
        first.collector.send_signal(signal.SIGKILL)
        first.collector.wait()
        time.sleep(8)
        ensure("the other collector has them all", len(second.ask("hosts")) == HOSTS)
        first.start_collector(**{k.replace(".", "__"): v for k, v in first.conf.items()})  # it sends what it had
        time.sleep(4)
        for a in agents:
            a.stop()
        for a in agents:
            a.wait()
        end = time.monotonic() + 90
        while time.monotonic() < end and holds(ch.server, agents) != (0, 0):
            time.sleep(0.5)
        check("every tick is there, once", holds(ch.server, agents), (0, 0))
        check("both collectors stored some", ch.server.number("SELECT uniqExact(collector) FROM batch"), 2)
        check("hosts", len(hosts(ch.server)), HOSTS)
        time.sleep(3)  # lists of hosts are good for some seconds
        for fleet in (first, second):
            check("nothing is missing", [(row["lost_ticks"], row["missing_batches"]) for row in coverage(fleet, since)], [(0, 0)] * HOSTS)
            check("gaps", [h.get("gaps", 0) for h in fleet.ask("hosts")], [0] * HOSTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
