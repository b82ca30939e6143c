"""procfleet-agent.exe enrols with a token at a Linux collector, sends, and renews a certificate that lives for twenty seconds."""

import json
import os
import signal
import subprocess
import sys
import time

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)

AGENT = [os.environ["WINE64"], os.path.join(WINDOWS_BIN, "procfleet-agent.exe")]
HOST = "winlab"
LIFE = 20


def settings(fleet):
    conf = {"state_dir": "Z:" + fleet.path("agents", HOST), "collector.addresses": "127.0.0.1:" + fleet.ports["ingest"],
            "collector.enroll_address": "127.0.0.1:" + fleet.ports["enroll"], "identity.name": HOST, "batch.max_age": "500ms"}
    return [a for k, v in conf.items() for a in ("--set", "%s=%s" % (k, v))]


def enroll(fleet, token, *more):
    """With the token on standard input."""
    done = subprocess.run([*AGENT, "enroll", "--token-file", "-", *settings(fleet), *more], input=token.encode(), timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def token(fleet):
    _, out, _ = fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("pki"))
    return out


def told(fleet):
    with open(fleet.path("agents", HOST, "status.json")) as f:
        return json.load(f)


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("no collector of Linux in %s: build the preset release first" % BIN)
with Fleet() as fleet:
    fleet.start_collector(pki__dir=fleet.path("pki"), pki__cert_life="%ds" % LIFE)
    right = token(fleet)
    code, out, err = enroll(fleet, right)
    first_ends = time.time() + LIFE  # at the latest
    check("it enrols", (code, HOST in out), (0, True))
    check("three files", sorted(os.listdir(fleet.path("agents", HOST, "tls"))), ["agent.key", "agent.pem", "ca.pem"])
    code, _, err = enroll(fleet, right)
    ensure("once", code == 1 and "enrolled already" in err, err)
    code, _, err = enroll(fleet, right, "--force")
    ensure("and a token once", code == 4 and "used" in err, err)

    with open(fleet.path("agent.log"), "ab") as f:
        agent = subprocess.Popen([*AGENT, "run", *settings(fleet)], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
    fleet.processes.append(agent)
    fleet.wait_for("data of the enrolled host", lambda: fleet.hosts().get(HOST))
    fleet.wait_for("its status", lambda: os.path.exists(fleet.path("agents", HOST, "status.json")))
    fleet.wait_for("a new certificate", lambda: told(fleet)["certificate"]["renewed"] >= 1, 70)
    ensure("which ends later", int(told(fleet)["certificate"]["ends"]) / 1e9 > first_ends)
    check("nothing is left over", sorted(os.listdir(fleet.path("agents", HOST, "tls"))), ["agent.key", "agent.pem", "ca.pem"])
    before = fleet.hosts()[HOST]["batches"]
    fleet.wait_for("data with it", lambda: fleet.hosts()[HOST]["batches"] > before)
    agent.send_signal(signal.SIGINT)
    check("the agent ends well after Ctrl-C", agent.wait(30), 0)
    ensure("nothing was left behind", "undelivered=0" in fleet.log("agent.log"), fleet.log("agent.log"))
    check("without a gap", fleet.hosts()[HOST]["gaps"], 0)
sys.exit(0)
