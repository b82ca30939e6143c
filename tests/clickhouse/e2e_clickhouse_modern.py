"""The dialect of modern servers, on ClickHouse's own engine of today in one process (shim.py): types, codecs, FINAL, every statement.

PROCFLEET_LIBCHDB names libchdb.so, out of npm's package @chdb/lib-linux-x64-gnu (540 MB unpacked); else .cache/clickhouse/libchdb.so.
"""

import os
import shutil
import sys
import time

from chfleet import Agent, ChFleet, check, drained, ensure, lab, sound
from e2e_clickhouse import FINGERPRINT

LIBRARY = os.environ.get("PROCFLEET_LIBCHDB", os.path.join(lab.CACHE, "libchdb.so"))


class Engine(lab.Server):
    def __init__(self, directory):
        self.dir, self.http = directory, lab.free_port()

    def start(self, patience=60):
        shim = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim.py")
        self.launch([sys.executable, "-B", shim, LIBRARY, self.dir, str(self.http)], dict(os.environ), self.dir)
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("SELECT 1", timeout=5)
                return self
            except OSError:
                time.sleep(0.2)
        raise lab.Missing("the engine does not start: %s" % self.log()[-300:])


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
    if not os.path.exists(LIBRARY) or not shutil.which("zstd"):
        print("skipped: no %s, or no zstd" % LIBRARY)
        return 77
    with ChFleet() as fleet:
        os.makedirs(fleet.path("engine"))
        server = Engine(fleet.path("engine"))
        try:
            server.start()
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
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
