"""The dialect of modern servers, on ClickHouse's own engine of today in one process (lab.Engine): types, codecs, FINAL, every statement."""

import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab, sound
from e2e_clickhouse import FINGERPRINT

def feed(fleet, server):
    fleet.feed(server.url, clickhouse__samples="gen-1")
    agents = [Agent(fleet, seed) for seed in (1, 2, 3)]
    time.sleep(4)
    for a in agents:
        a.stop()
    for a in agents:
        a.wait()
    check("every tick is there, once", drained(fleet, server, agents), (0, 0))
    sound(server)


def main():
    with lab.modern() as server, ChFleet() as fleet:
        feed(fleet, server)
        check("a view has the names for people", server.table("SELECT max(working_set_size_max) FROM cell_once WHERE host_id IN "
                                                              "(SELECT host_id FROM sample)"),
              server.table("SELECT max(working_set_size) FROM sample_once"))
        before = server.table(FINGERPRINT)
        fleet.command("forward", "--since", "1h")
        check("what is sent again changes nothing", server.table(FINGERPRINT), before)
        sound(server)
        _, out, _ = fleet.command("migrate")
        ensure("nothing is left to migrate", "nothing to do" in out, out)
        fleet.command("check")
        _, out, _ = fleet.command("status")
        ensure("status names the collector", "collector a sent" in out, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
