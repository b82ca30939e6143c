"""The Windows agent as a service, under Wine, with a collector of this system: install, start, data, stop, failure, uninstall."""

import os
import shutil
import subprocess
import sys
import tempfile
import time

EXE = os.path.join(os.environ["PROCFLEET_BIN"], "procfleet-agent.exe")
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)

WINE = os.environ["WINE64"]
WINESERVER = next((w for w in (shutil.which("wineserver"), "/usr/lib/wine/wineserver") if w and os.path.exists(w)), None)


def windows(path):
    return "Z:" + path.replace("/", "\\")


class Wine:
    """A prefix of its own. A sleeping program keeps it alive: Wine ends services with the last ordinary program."""

    def __init__(self, fleet):
        self.env = dict(os.environ, WINEPREFIX=fleet.path("wine"), WINEDEBUG="-all", WINEDLLOVERRIDES="mscoree,mshtml=")
        self.run("wineboot", "-i", expect=None)
        subprocess.run([WINESERVER, "-w"], env=self.env, timeout=60, check=False)  # or what is made now is lost
        self.sleeper = subprocess.Popen([WINE, EXE, "run", "--config", write_settings(fleet, "sleeper")], env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        fleet.processes.append(self.sleeper)
        fleet.wait_for("the sleeper", lambda: fleet.hosts().get("sleeper"))

    def run(self, *args, expect=0, timeout=60):
        # Files, not pipes: Wine's own services start with the first program and keep its handles open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run([WINE, *args], env=self.env, timeout=timeout, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err, check=False)
            for f in (out, err):
                f.seek(0)
            out, err = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        ensure("%s gives %s" % (" ".join(os.path.basename(a) for a in args), expect), expect in (None, done.returncode),
               "%d\n%s\n%s" % (done.returncode, out, err))
        return out, err

    def service(self, *args, expect=0):
        return self.run(EXE, "service", *args, expect=expect)

    def end(self):
        subprocess.run([WINESERVER, "-k"], env=self.env, timeout=30, check=False)


def write_settings(fleet, name, **more):
    tls = fleet.tls(name)
    settings = {"state_dir": windows(fleet.path("agents", name)), "collector.addresses": "127.0.0.1:" + fleet.ports["ingest"],
                "tls.ca": windows(tls["ca"]), "tls.cert": windows(tls["cert"]), "tls.key": windows(tls["key"]),
                "batch.max_age": "500ms"}
    settings.update({k.replace("__", "."): v for k, v in more.items()})
    with open(fleet.path("agent.yaml"), "w") as f:
        f.writelines("%s: '%s'\n" % row for row in settings.items())
    return windows(fleet.path("agent.yaml"))


def life(fleet, wine):
    ensure("an unknown key is named with its line", "agent.yaml:7: unknown key" in wine.service(
        "install", "--config", write_settings(fleet, "wine", no__such="1"), expect=2)[1])
    config = write_settings(fleet, "wine")
    ensure("what is missing is said", "not installed" in wine.service("start", expect=1)[1])
    wine.service("install", "--config", config)
    ensure("once is enough", "installed already" in wine.service("install", "--config", config, expect=1)[1])
    ensure("it is stopped at first", "stopped" in wine.service("status", expect=1)[0])
    wine.service("start")
    ensure("it runs", "running, process" in wine.service("status")[0])
    fleet.wait_for("data of the service", lambda: fleet.hosts().get("wine"))
    fleet.wait_for("the service among its processes", lambda: "procfleet-agent.exe" in fleet.cli("ps", "--host", "wine", expect=None)[1])
    begun = time.monotonic()
    wine.service("stop")
    ensure("it stops in time", time.monotonic() - begun < 10, "%.1f s" % (time.monotonic() - begun))
    log = fleet.log("agents/wine/log/agent.log")
    ensure("it ended in good order, everything delivered", "agent stopped" in log and "undelivered=0" in log, log)
    wine.service("stop")


def trouble(fleet, wine):
    """Without a collector it stops within its deadline; what cannot work ends with its exit code."""
    fleet.collector.kill()
    fleet.collector.wait()
    wine.service("start")
    fleet.wait_for("the agent to notice", lambda: "uplink unreachable" in fleet.log("agents/wine/log/agent.log"))
    begun = time.monotonic()
    wine.service("stop")
    ensure("it stops within the deadline", time.monotonic() - begun < 8, "%.1f s" % (time.monotonic() - begun))
    write_settings(fleet, "wine", tls__key=windows(fleet.path("nowhere")))
    wine.service("start", expect=None)
    fleet.wait_for("the exit code", lambda: "last exit code 1" in wine.service("status", expect=None)[0])
    wine.service("uninstall")
    ensure("it is gone", "not installed" in wine.service("status", expect=1)[1])


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("the collector is a Linux program: build the preset release first")
if not WINESERVER:
    skip("there is no wineserver")
with Fleet() as fleet:
    fleet.start_collector()
    fleet.issue("agent", "wine")
    fleet.issue("agent", "sleeper")
    wine = Wine(fleet)
    try:
        life(fleet, wine)
        trouble(fleet, wine)
    finally:
        wine.end()
sys.exit(0)
