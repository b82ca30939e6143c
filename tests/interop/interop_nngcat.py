"""nngcat, with its own TLS engine, subscribes over mutual TLS and receives live events."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import Fleet, ensure, skip  # noqa: E402

if not shutil.which("nngcat"):
    skip("nngcat is not installed (Debian package nng-utils)")


def nngcat(fleet, tls, *more):
    """Standard output of nngcat subscribed to everything until the first messages arrived or time is up."""
    url = "tls+tcp://localhost:" + fleet.ports["events"]
    command = ["nngcat", "--sub", "--dial=" + url, "--subscribe=event/", "--quoted", "--cacert=" + tls["ca"], *more]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = p.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
    return out.decode(errors="replace"), err.decode(errors="replace")


with Fleet() as fleet:
    fleet.start_collector()
    fleet.start_agent("live", batch__max_age="200ms")
    fleet.wait_for("the first data", lambda: fleet.hosts().get("live"))
    tls = fleet.tls("subscriber")
    busy = subprocess.Popen(["sh", "-c", "while :; do true | cat; sleep 0.1; done"])
    try:
        out, err = nngcat(fleet, tls, "--cert=" + tls["cert"], "--key=" + tls["key"])
        ensure("nngcat receives events of the live host", "event/live" in out, (out[:300], err[:300]))
        out, err = nngcat(fleet, tls)
        ensure("nngcat without a certificate receives nothing", "event/live" not in out, out[:300])
    finally:
        busy.kill()
        busy.wait()
    ensure("the refusal is logged", "no certificate" in fleet.log("collector.log"), fleet.log("collector.log")[-500:])
