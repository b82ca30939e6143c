"""What a collector leaves when it ends, and what it makes of hours that are over: minutes and hours, by its own."""

import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab

HOUR = 3600 * 10 ** 9


def flushed(fleet, ch):
    """The end sends what was gathered: nothing waits for the next start."""
    fleet.feed(ch, clickhouse__gather="10s")
    fleet.wait_for("the tables", lambda: ch.server.ask("EXISTS TABLE procfleet.batch") == "1")
    agent = Agent(fleet, 1)
    time.sleep(3)
    agent.stop()
    agent.wait()
    begun = time.monotonic()
    fleet.stop(fleet.collector)
    ensure("the end does not take long", time.monotonic() - begun < 8, str(time.monotonic() - begun))
    check("every tick is there", ch.server.number("SELECT sum(n) FROM cell FINAL"), sum(agent.ticks.values()))
    check("and named by the ledger", ch.server.number("SELECT sum(rows) FROM batch FINAL WHERE kind = 3"), sum(agent.ticks.values()))


def unreachable(fleet, ch):
    """Nor does it wait for one that is down."""
    fleet.feed(ch)
    ch.server.kill()
    agent = Agent(fleet, 2)
    time.sleep(1)
    agent.stop()
    agent.wait()
    fleet.wait_for("the metrics to say so", lambda: fleet.metric("procfleet_clickhouse_working") == 0)
    begun = time.monotonic()
    fleet.stop(fleet.collector)
    ensure("the end does not wait", time.monotonic() - begun < 4, str(time.monotonic() - begun))
    ch.server.start()
    fleet.feed(ch)
    check("after the next start every tick is there", drained(fleet, ch.server, [agent]), (0, 0))


def sums(ch, table, where="1"):
    return ch.server.table("SELECT sum(n), sum(m17_dev + n * m17), max(m17 + m17_up), min(m17 - m17_down), max(m9_most) FROM %s FINAL WHERE %s"
                           % (table, where))


def made(fleet, ch):
    """An hour that is over: the rows of this one are moved back a day, as if they had come then."""
    fleet.stop(fleet.collector)
    day = 24 * HOUR
    moved = {"cell": ("ts", "last_ts"), "batch": ("t0", "t1", "received", "tick0", "tick1")}
    for table, stamps in moved.items():
        columns = [r[0] for r in ch.server.table("SELECT name FROM system.columns WHERE database = 'procfleet' AND table = '%s' AND "
                                                 "default_kind = ''" % table)]
        ch.server.ask("INSERT INTO %s (%s) SELECT %s FROM %s" % (table, ", ".join(columns), ", ".join(
            "%s - %d" % (c, day) if c in stamps else "stream + 1" if c == "stream" else c for c in columns), table), "procfleet")
    fleet.feed(ch)
    yesterday = "ts < %d" % (time.time_ns() - day // 2)
    fleet.wait_for("yesterday's minutes and hours", lambda: ch.server.number("SELECT count() FROM fold WHERE batches > 0 AND tier = 'hour'") > 0, 60)
    time.sleep(1)
    check("minutes say what cells do", sums(ch, "minute")[0][:4], sums(ch, "cell", yesterday)[0][:4])
    check("hours say what minutes do", sums(ch, "hour"), sums(ch, "minute"))
    ensure("and are fewer", ch.server.number("SELECT count() FROM hour") < ch.server.number("SELECT count() FROM cell WHERE " + yesterday))


def main():
    with lab.opened() as ch, ChFleet() as fleet:
        flushed(fleet, ch)
        unreachable(fleet, ch)
        made(fleet, ch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
