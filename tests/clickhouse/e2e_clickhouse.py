"""Agents, a collector, a ClickHouse: every tick is in the tables once, whatever is repeated, killed or restarted in between."""

import os
import signal
import subprocess
import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, found, lab, sound
from fleet import BIN

FINGERPRINT = ("SELECT count(), sum(n), sum(m9), sum(m9_grew), max(m9_most), sum(m17), sum(m17_up), sum(m17_down), sum(m17_dev), "
               "sum(cityHash64(toString(host_id), pid, start, ts, last_ts, seq, mask, mask_high, m9, m17)) FROM cell FINAL")


def first_start(fleet, ch):
    """An empty server is set up, and fed."""
    fleet.feed(ch, clickhouse__samples="gen-1")
    agents = [Agent(fleet, seed) for seed in (1, 2, 3)]
    time.sleep(4)
    for a in agents:
        a.stop()
    for a in agents:
        a.wait()
    check("every tick is there, once", drained(fleet, ch.server, agents), (0, 0))
    sound(ch.server)
    check("nothing was marked as sent again", ch.server.number("SELECT count() FROM batch WHERE again"), 0)
    check("samples of the one host that is named",
          ch.server.number("SELECT count() FROM sample WHERE host_id IN (SELECT host_id FROM host WHERE name = 'gen-1')"),
          sum(agents[0].ticks.values()))
    check("and of no other", ch.server.number("SELECT uniq(host_id) FROM sample"), 1)
    return agents


def cells_are_samples(ch):
    """What samples give is what their cells give."""
    server = ch.server
    one = "host_id IN (SELECT host_id FROM host WHERE name = 'gen-1')"
    for metric in ("m9", "m14"):  # counters: the growth from first to last of each batch and its steps
        check("growth of %s in cells and samples" % metric,
              server.table("SELECT sum(%s_grew), max(%s_most) FROM cell WHERE %s" % (metric, metric, one)),
              server.table("SELECT sum(v[-1] - v[1]), max(arrayReduce('max', arrayConcat([toInt64(0)], arrayMap((a, b) -> b - a, arrayPopBack(v), "
                           "arrayPopFront(v))))) FROM (SELECT arrayMap(x -> x.2, arraySort(groupArray((ts, %s)))) AS v FROM sample "
                           "WHERE %s GROUP BY boot, pid, start, stream, seq, intDiv(ts, 10000000000), mask, mask_high)" % (metric, one)))
    for metric in ("m17", "m25"):
        check("sum, least and most of %s in cells and samples" % metric,
              server.table("SELECT sum(%s_dev + n * %s), min(%s - %s_down), max(%s + %s_up) FROM cell WHERE %s" % (*[metric] * 6, one)),
              server.table("SELECT sum(%s), min(%s), max(%s) FROM sample WHERE %s" % (*[metric] * 3, one)))
    check("a name for people", server.table("SELECT max(working_set_size_max) FROM cell WHERE %s" % one),
          server.table("SELECT max(working_set_size) FROM sample WHERE %s" % one))
    check("a view that counts once", server.table("SELECT max(working_set_size_max), max(time) > 0 FROM cell_once WHERE %s" % one),
          server.table("SELECT max(working_set_size), 1 FROM sample_once WHERE %s" % one))


def repeated(fleet, ch):
    """Back-fill of what is there changes nothing."""
    before = ch.server.table(FINGERPRINT)
    for _ in range(2):
        _, out, _ = fleet.command("forward", "--since", "1h")
        ensure("forward sends batches", int(found(r"^(\d+) batch", out)) > 0, out)
        check("and the tables are as before", ch.server.table(FINGERPRINT), before)
    sound(ch.server)
    ensure("the ledger says that they came again", ch.server.number("SELECT sum(again) FROM batch FINAL") > 0)


def sealed(fleet, ch, agents):
    """Of what a restart sealed, cells are the same as those that were made when it was fresh."""
    before = ch.server.table(FINGERPRINT)
    fleet.stop(fleet.collector)
    fleet.feed(ch, head__max_bytes="16MiB")
    ch.server.ask("TRUNCATE TABLE batch", "procfleet")
    ch.server.ask("TRUNCATE TABLE cell", "procfleet")
    ch.server.ask("TRUNCATE TABLE event", "procfleet")
    fleet.stop(fleet.collector)
    os.remove(fleet.path("data", "clickhouse", "state"))
    fleet.feed(ch)
    check("a lost state, a lost table: everything is sent again", drained(fleet, ch.server, agents), (0, 0))
    check("and is what it was", ch.server.table(FINGERPRINT), before)
    sound(ch.server)


def killed(fleet, ch):
    """kill -9 of the collector while it sends."""
    agents = [Agent(fleet, seed) for seed in (4, 5)]
    for _ in range(3):
        time.sleep(1.2)
        fleet.collector.send_signal(signal.SIGKILL)
        fleet.collector.wait()
        fleet.feed(ch)
    time.sleep(1)
    for a in agents:
        a.stop()
    for a in agents:
        a.wait()
    check("after three kills every tick is there, once", drained(fleet, ch.server, agents), (0, 0))
    sound(ch.server)


def server_killed(fleet, ch):
    """kill -9 of the server: agents notice nothing."""
    agents = [Agent(fleet, 6)]
    time.sleep(1)
    ch.server.kill()
    fleet.wait_for("the metrics to say so", lambda: fleet.metric("procfleet_clickhouse_working") == 0)
    ensure("/readyz says so, and is ok", fleet.ready().startswith("ok; ClickHouse lags"), fleet.ready())
    code, out, _ = fleet.command("check", expect=None)
    ensure("check says that it cannot be reached", code == 1 and "clickhouse.server" in out, out)
    time.sleep(2)
    agents[0].stop()
    agents[0].wait()  # all of it acknowledged meanwhile
    ch.server.start()
    check("after its return every tick is there, once", drained(fleet, ch.server, agents), (0, 0))
    sound(ch.server)
    check("/readyz", fleet.ready(), "ok")


def commands(fleet, ch):
    code, out, _ = fleet.command("check")
    ensure("check finds nothing wrong", "all tables and columns" in out, out)
    _, out, _ = fleet.command("status", "--format", "json")
    ensure("status has the tables", '"cell"' in out, out)
    _, out, _ = fleet.command("status")
    ensure("status names the collector", "collector a sent" in out, out)
    _, out, _ = fleet.command("migrate")
    ensure("migrate has nothing to do", "nothing to do" in out, out)
    fleet.command("forget-collector", "nobody", expect=1)
    fleet.command("forget-collector", "a")
    check("a collector is forgotten", ch.server.table("SELECT argMax(version, seen) FROM collector WHERE name = 'a'"), [["forgotten"]])
    code, _, err = fleet.command("check", expect=2, clickhouse__urls="http://example.org:8123")
    ensure("plain http goes no further than this machine", "https" in err, err)
    fleet.run("procfleet-collector", "clickhouse", "check", "--set", "data_dir=" + fleet.path("data"), expect=2)


def migrations(fleet, ch):
    """A migration that is killed at any moment is completed by the next one."""
    for i in range(4):
        database = "migrated%d" % i
        args = fleet.settings(clickhouse__database=database)
        p = subprocess.Popen([os.path.join(BIN, "procfleet-collector"), "clickhouse", "migrate", *args], stdout=subprocess.PIPE)
        for _ in range(3 * i + 1):  # statements
            p.stdout.readline()
        p.kill()
        p.wait()
        p.stdout.close()
        fleet.command("migrate", clickhouse__database=database)
        _, out, _ = fleet.command("migrate", clickhouse__database=database)
        ensure("the third migration has nothing to do", "nothing to do" in out, out)
        check("all tables", ch.server.number("SELECT count() FROM system.tables WHERE database = '%s'" % database), 14)
    ch.server.ask("CREATE DATABASE old")
    fleet.command("migrate", clickhouse__database="old")
    ch.server.ask("ALTER TABLE old.event DROP COLUMN tid")
    _, out, _ = fleet.command("migrate", "--dry-run", clickhouse__database="old")
    check("a missing column is all that is to be done", out.strip(), "ALTER TABLE `old`.`event` ADD COLUMN `tid` UInt32;")
    code, out, _ = fleet.command("check", clickhouse__database="old", expect=1)
    ensure("check says so", "clickhouse migrate" in out, out)
    fleet.command("migrate", clickhouse__database="old")
    fleet.command("check", clickhouse__database="old")


def main():
    with lab.opened() as ch, ChFleet() as fleet:
        agents = first_start(fleet, ch)
        cells_are_samples(ch)
        repeated(fleet, ch)
        sealed(fleet, ch, agents)
        killed(fleet, ch)
        server_killed(fleet, ch)
        commands(fleet, ch)
        migrations(fleet, ch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
