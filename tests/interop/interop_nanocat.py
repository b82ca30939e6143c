"""nanocat, which knows no TLS, subscribes through socat, which does: nanomsg's own implementation of the protocol."""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import Fleet, check, skip  # noqa: E402

for program, package in (("nanocat", "nanomsg-utils"), ("socat", "socat")):
    if not shutil.which(program):
        skip("%s is not installed (Debian package %s)" % (program, package))


def start(fleet, log, *command):
    with open(fleet.path(log), "ab") as f:
        fleet.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=f))


def subscribe(fleet, name, tls):
    """socat on a port that the system picks, and nanocat behind it; what nanocat prints goes to nanocat-NAME.log."""
    to = "OPENSSL:127.0.0.1:%s,commonname=procfleet-collector" % fleet.ports["events"]
    to += "".join(",%s=%s" % (socat, tls[ours]) for socat, ours in (("cafile", "ca"), ("cert", "cert"), ("key", "key")) if ours in tls)
    log = "socat-%s.log" % name
    start(fleet, log, "socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1,fork", to)
    found = fleet.wait_for("socat to listen", lambda: re.search(r"listening on AF=2 127\.0\.0\.1:(\d+)", fleet.log(log)))
    start(fleet, "nanocat-%s.log" % name, "stdbuf", "-oL", "nanocat", "--sub", "--connect", "tcp://127.0.0.1:" + found.group(1),
          "--subscribe", "event/", "--quoted")


with Fleet() as fleet:
    fleet.start_collector()
    fleet.start_agent("live", batch__max_age="200ms")
    fleet.wait_for("the first data", lambda: fleet.hosts().get("live"))
    start(fleet, "busy.log", "sh", "-c", "while :; do true | cat; sleep 0.1; done")
    tls = fleet.tls("subscriber")
    subscribe(fleet, "nobody", {"ca": tls["ca"]})
    subscribe(fleet, "subscriber", tls)
    fleet.wait_for("nanocat to receive events of the live host", lambda: "event/live" in fleet.log("nanocat-subscriber.log"))
    fleet.wait_for("the refusal of who has no certificate", lambda: "no certificate" in fleet.log("collector.log"))
    check("who has none receives nothing", "event/live" in fleet.log("nanocat-nobody.log"), False)
