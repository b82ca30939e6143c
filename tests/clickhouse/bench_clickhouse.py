"""Everything that design asks of the way to ClickHouse, as ratios of one run: the figures of build/release/bin/bench_clickhouse beside a server, then
those of a fleet: what agents wait for their answers, memory, catching up, how old the newest data is.

    bench_clickhouse.py [--agents N] [--seconds S] [--only fleet|program]

100 agents (of 50 processes at 1 Hz, batches of 2 s) and 25 s a phase when not said: four minutes. Where 1,000 are asked for, the
figure is of as many as there are: two cores carry agents and servers, too.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

from chfleet import BIN, Agent, ChFleet, lab

LAG_GONE_S = 6  # gathering, and batches of 2 s


def figure(name, value, unit="", goal=None, more=False):
    held = goal is None or (value >= goal if more else value <= goal)
    print("  %-52s %10.3f %-5s %s" % (name, value, unit, "" if goal is None else "%s %g%s" % (">=" if more else "<=", goal,
                                                                                             "" if held else "  missed")), flush=True)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def resident_mib(process):
    with open("/proc/%d/status" % process.pid) as f:
        return int(f.read().split("VmRSS:")[1].split()[0]) / 1024


def cpu_s(process):
    with open("/proc/%d/stat" % process.pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def acks(agents, seconds):
    """p99 of what comes in so many seconds from now, ms."""
    before = [len(a.acks) for a in agents]
    time.sleep(seconds)
    return quantile([ns / 1e6 for a, n in zip(agents, before) for ns in a.acks[n:]], 0.99)


def start(fleet, args):
    agents = [Agent(fleet, seed, rate=1, samples=2, processes=50, acks=True) for seed in range(1, args.agents + 1)]
    time.sleep(8)
    return agents


def end(agents):
    for a in agents:
        a.process.kill()
        a.process.wait()


def off(args):
    with ChFleet() as fleet:
        fleet.start_collector(http__refresh="1s")
        agents = start(fleet, args)
        p99, mib = acks(agents, args.seconds), resident_mib(fleet.collector)
        end(agents)
    return p99, mib


def newest(server, seconds):
    """How long after its arrival at the collector a batch is in the ledger; what is seen each 0.2 s, s."""
    seen, ages, until, first = set(), [], time.monotonic() + seconds, True
    while time.monotonic() < until:
        rows = server.table("SELECT toString(host_id), stream, seq, received FROM batch WHERE kind = 3 AND received > "
                            "toInt64(%d)" % ((time.time() - 30) * 1e9))
        now = time.time()
        for host, stream, seq, received in rows:
            if (host, stream, seq) not in seen:
                seen.add((host, stream, seq))
                ages += [] if first else [now - int(received) / 1e9]
        first = False
        time.sleep(0.2)
    return ages


def caught_up(fleet, server, outage_s):
    """ClickHouse is back: real seconds of data a second, from when it takes the first block until the lag is gone."""
    server.start()
    fleet.wait_for("ClickHouse to take something", lambda: fleet.metric("procfleet_clickhouse_batches_total") > 0, 120)
    begin = time.monotonic()
    fleet.wait_for("the lag to be gone", lambda: fleet.metric("procfleet_clickhouse_lag_seconds") < LAG_GONE_S, 240)
    return outage_s / max(time.monotonic() - begin, 0.1)


def on(args, ch, off_p99, off_mib):
    with ChFleet() as fleet:
        fleet.feed(ch, clickhouse__gather="2s")
        agents = start(fleet, args)
        sink_s, all_s, values = (fleet.metric("procfleet_clickhouse_cpu_seconds_total"), cpu_s(fleet.collector),
                                 fleet.metric("procfleet_clickhouse_values_total"))
        p99 = acks(agents, args.seconds)
        sink_s = fleet.metric("procfleet_clickhouse_cpu_seconds_total") - sink_s
        figure("sink's thread : the rest of the collector, CPU", sink_s / max(cpu_s(fleet.collector) - all_s - sink_s, 1e-9))
        figure("sink's thread, small batches, plain bodies",
               sink_s * 1e9 / max(fleet.metric("procfleet_clickhouse_values_total") - values, 1), "ns")
        figure("acknowledgement p99: sink off", off_p99, "ms")
        figure("acknowledgement p99: sink on : off", p99 / off_p99, "", 1.2)
        ages = newest(ch.server, args.seconds)
        figure("age of the newest answer, %d agents, p99" % args.agents, quantile(ages, 0.99), "s", 5)
        ch.server.kill()
        down, began = acks(agents, args.seconds), time.monotonic() - args.seconds
        figure("acknowledgement p99: ClickHouse down : off", down / off_p99, "", 1.2)
        mib = resident_mib(fleet.collector)
        figure("memory of the collector: sink off", off_mib, "MiB")
        figure("memory of the collector: sink on, ClickHouse down, more", mib - off_mib, "MiB", 160)
        fleet.collector.send_signal(signal.SIGKILL)  # what waits is read from the store
        fleet.collector.wait()
        fleet.start_collector(**{k.replace(".", "__"): v for k, v in fleet.conf.items()})
        time.sleep(args.seconds)
        figure("catching up, live batches going on", caught_up(fleet, ch.server, time.monotonic() - began), "x", 3, more=True)
        end(agents)


def program(server):
    print("\nClickHouse %s" % server.ask("SELECT version()"), flush=True)
    subprocess.run([os.path.join(BIN, "bench_clickhouse"), "--url", server.url, "--pid", str(server.process.pid)], check=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--agents", type=int, default=100)
    options.add_argument("--seconds", type=float, default=25)
    options.add_argument("--only", choices=("fleet", "program"))
    args = options.parse_args()
    if args.only != "fleet" and os.path.exists(lab.Engine.LIBRARY):
        with lab.modern() as engine:  # bytes by codecs, which Debian's server has not
            program(engine)
    with lab.opened() as ch:
        if args.only != "fleet":
            program(ch.server)
        if args.only != "program":
            on(args, ch, *off(args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
