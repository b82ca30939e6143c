"""The operator's command line: what it says and how it exits when things are not as they should be."""

import os
import signal
import subprocess
import sys

from fleet import BIN, Fleet, check, ensure


def exits(fleet, code, *args):
    """The command ends with this exit code; gives what it said on standard error."""
    _, _, err = fleet.cli(*args, expect=code)
    print("ok: exit code %d: %s" % (code, " ".join(args)))
    return err


def usage(fleet):
    for args in (["nonsense"], ["hosts", "--bogus"], ["hosts", "extra"], ["hosts", "--format", "xml"],
                 ["top", "--by", "nonsense"], ["top", "--by", "name"], ["top", "--since", "yesterday"],
                 ["top", "--since", "1m", "--until", "5m"], ["top", "-n", "0"], ["top", "-n", "-1"], ["history"],
                 ["events", "--kind", "nonsense"], ["history", "--name", "*", "-n", "100001"],
                 ["hosts", "--collector", "127.0.0.1:99999"], ["tail", "--events", "no address"]):
        ensure("a sentence is said", exits(fleet, 2, *args).strip())


def refusals(fleet):
    agent, nobody = fleet.issue("agent", "spy"), "127.0.0.1:1"
    said = exits(fleet, 3, "hosts", "--collector", nobody)
    check("the address is named once", said.count(nobody), 1)
    exits(fleet, 4, "hosts", "--cert", agent["cert"], "--key", agent["key"])
    exits(fleet, 4, "tail", "--for", "5s")
    exits(fleet, 5, "top", "--host", "nosuch")


def output(fleet):
    tls = fleet.tls("operator")
    env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
    for form in ("table", "json", "csv"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([os.path.join(BIN, "procfleet"), "hosts", "--format", form], env=env, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        check("a full disk under the answer is an error (%s)" % form, done.returncode, 1)


def lost_stream(fleet):
    """tail says that the collector went away and came back, and that its output is not the whole."""
    tls = fleet.tls("subscriber")
    env = dict(os.environ, PROCFLEET_EVENTS="127.0.0.1:" + fleet.ports["events"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
    with open(fleet.path("samples.csv"), "wb") as rows:
        tail = subprocess.Popen([os.path.join(BIN, "procfleet"), "tail", "--samples", "--format", "csv"], env=env,
                                stdout=rows, stderr=subprocess.PIPE)
    fleet.wait_for("the first samples", lambda: os.path.getsize(fleet.path("samples.csv")))
    fleet.collector.kill()
    fleet.collector.wait()
    ensure("the loss is told", b"lost" in tail.stderr.readline())
    fleet.start_collector()
    ensure("the return is told", b"again" in tail.stderr.readline())
    tail.send_signal(signal.SIGINT)
    check("Ctrl-C ends it as partial", tail.wait(timeout=30), 5)


with Fleet() as fleet:
    fleet.start_collector()
    fleet.start_agent("live", batch__max_age="500ms")
    fleet.wait_for("the first data", lambda: fleet.hosts().get("live"))
    usage(fleet)
    refusals(fleet)
    output(fleet)
    lost_stream(fleet)
sys.exit(0)
