"""Prometheus, as Debian has it, scrapes the collector and answers PromQL questions with the command line's numbers."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import ROOT, Fleet, check, ensure, skip  # noqa: E402

DEPS = os.environ.get("DEPS_DIR") or os.path.join(ROOT, ".cache", "deps")
PROGRAM = shutil.which("prometheus", path=os.path.join(DEPS, "prometheus")) or shutil.which("prometheus")

if not PROGRAM:
    skip("Prometheus is not there (scripts/install-deps --test unpacks Debian's)")

CONF = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: procfleet
    static_configs: [{targets: ["127.0.0.1:%s"]}]
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def ask(port, question):
    """[(labels, number)]; None while Prometheus does not answer."""
    url = "http://127.0.0.1:%d/api/v1/query?%s" % (port, urllib.parse.urlencode({"query": question}))
    try:
        with urllib.request.urlopen(url, timeout=30) as r:
            data = json.load(r)["data"]["result"]
    except (urllib.error.URLError, ConnectionError):
        return None
    return [(row["metric"], float(row["value"][1])) for row in data]


def one(port, question):
    rows = ask(port, question)
    return rows[0][1] if rows else None


with Fleet() as fleet:
    fleet.start_collector(http__refresh="1s")
    agent = fleet.start_agent("agent-one", batch__max_age="1s")
    fleet.wait_for("data", lambda: fleet.hosts().get("agent-one", {}).get("batches", 0) > 2)
    agent.send_signal(signal.SIGSTOP)  # from here on nothing changes
    time.sleep(1)
    host = fleet.hosts()["agent-one"]
    port = free_port()
    with open(fleet.path("prometheus.yml"), "w") as f:
        f.write(CONF % fleet.ports["http"])
    with open(fleet.path("prometheus.log"), "wb") as log:
        prometheus = subprocess.Popen([PROGRAM, "--config.file=" + fleet.path("prometheus.yml"), "--web.listen-address=127.0.0.1:%d" % port,
                                       "--storage.tsdb.path=" + fleet.path("prometheus")], stdout=log, stderr=log)
    fleet.processes.append(prometheus)
    fleet.wait_for("a scrape that worked", lambda: one(port, "up{job='procfleet'}") == 1 or prometheus.poll() is not None)
    ensure("Prometheus runs", prometheus.poll() is None, fleet.log("prometheus.log")[-2000:])
    seen = fleet.ask("overview", expect=None)[0]
    fleet.wait_for("the stopped agent's numbers", lambda: one(port, "procfleet_store_batches_total") == seen["batches"])
    check("processes of a host", one(port, 'procfleet_host_processes{host="agent-one"}'), host["processes"])
    check("with its id", ask(port, "procfleet_host_up")[0][0]["id"], host["id"])
    check("hosts that are up", one(port, "sum(procfleet_host_up)"), 1)
    check("batches", one(port, "procfleet_store_batches_total"), seen["batches"])
    check("what nobody refused", one(port, "sum(procfleet_listener_refused_total)"), 0)
    check("the version", ask(port, "procfleet_build_info")[0][0]["version"], fleet.run("procfleet", "version")[1].split()[1])
    top = one(port, "max(topk(3, procfleet_program_resident_bytes))")
    rows = fleet.ask("top", "--group-by", "image", "--by", "working_set_size", "-n", "1", expect=None)
    if time.time() - host["first_time"] / 1e9 < 55:  # the last minute is all there is
        check("the largest program", top, rows[0]["working_set_size"])
    fleet.wait_for("two scrapes, for a rate", lambda: one(port, "rate(procfleet_cpu_seconds_total[1m])") is not None)
    with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/metadata?metric=procfleet_cpu_seconds" % port, timeout=30) as r:
        told = json.load(r)["data"]
    check("type, unit and meaning arrive", told["procfleet_cpu_seconds"],
          [{"type": "counter", "help": "CPU time of the collector, user and kernel.", "unit": "seconds"}])
    errors = [line for line in fleet.log("prometheus.log").splitlines() if "level=warn" in line and "scrape" in line]
    check("it finds nothing wrong", errors, [])
