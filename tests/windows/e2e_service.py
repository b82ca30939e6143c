"""The Windows agent as a service, under Wine, with a collector of this system: install, start, data, stop, failure, uninstall."""

import os
import re
import shutil
import sys
import time

EXE = os.path.join(os.environ["PROCFLEET_BIN"], "procfleet-agent.exe")
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, ensure, skip  # noqa: E402  (it reads the environment)
from prefix import WINESERVER, Prefix, windows  # noqa: E402


class Wine(Prefix):
    """All of it on the drive of Wine's own: above the others is this machine, where everybody can move what is in /tmp."""

    def __init__(self, fleet):
        super().__init__(fleet)
        os.mkdir(self.drive("programs"))
        self.exe = shutil.copy(EXE, self.drive("programs"))

    def service(self, *args, expect=0):
        return self.run(self.exe, "service", *args, expect=expect)


def write_settings(fleet, wine, name, **more):
    tls = fleet.tls(name)
    settings = {"state_dir": "C:\\agents\\" + name, "collector.addresses": "127.0.0.1:" + fleet.ports["ingest"],
                "tls.ca": windows(tls["ca"]), "tls.cert": windows(tls["cert"]), "tls.key": windows(tls["key"]),
                "batch.max_age": "500ms"}
    settings.update({k.replace("__", "."): v for k, v in more.items()})
    path = wine.drive("settings", "agent.yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.writelines("%s: '%s'\n" % row for row in settings.items())
    return "C:\\settings\\agent.yaml"


def log_of(fleet, wine):
    return fleet.log(wine.drive("agents", "wine", "log", "agent.log"))


def life(fleet, wine):
    ensure("an unknown key is named with its line", "agent.yaml:7: unknown key" in wine.service(
        "install", "--config", write_settings(fleet, wine, "wine", no__such="1"), expect=2)[1])
    config = write_settings(fleet, wine, "wine")
    ensure("what is missing is said", "not installed" in wine.service("start", expect=1)[1])
    wine.service("install", "--config", config)
    ensure("once is enough", "installed already" in wine.service("install", "--config", config, expect=1)[1])
    key = wine.run("reg", "query", r"HKLM\SYSTEM\CurrentControlSet\Services\procfleet-agent")[0]
    ensure("it starts with the system", re.search(r"Start\s+REG_DWORD\s+0x2\b", key), key)
    ensure("it is stopped at first", "stopped" in wine.service("status", expect=1)[0])
    wine.service("start")
    ensure("it runs", "running, process" in wine.service("status")[0])
    fleet.wait_for("data of the service", lambda: fleet.hosts().get("wine"))
    fleet.wait_for("the service among its processes", lambda: "procfleet-agent.exe" in fleet.cli("ps", "--host", "wine", expect=None)[1])

    def tells():
        told = wine.service("status", "--config", config)[0]
        return all(w in told for w in ("source ", "level     L", "lost ", "collector connected"))

    fleet.wait_for("its status to have what it tells of itself", tells)  # the file is written every few seconds
    begun = time.monotonic()
    wine.service("stop")
    ensure("it stops in time", time.monotonic() - begun < 10, "%.1f s" % (time.monotonic() - begun))
    log = log_of(fleet, wine)
    ensure("it ended in good order, everything delivered", "agent stopped" in log and "undelivered=0" in log, log)
    wine.service("stop")


def trouble(fleet, wine):
    """Without a collector it stops within its deadline; what cannot work ends with its exit code."""
    fleet.collector.kill()
    fleet.collector.wait()
    wine.service("start")
    fleet.wait_for("the agent to notice", lambda: "uplink unreachable" in log_of(fleet, wine))
    begun = time.monotonic()
    wine.service("stop")
    ensure("it stops within the deadline", time.monotonic() - begun < 8, "%.1f s" % (time.monotonic() - begun))
    write_settings(fleet, wine, "wine", tls__key=windows(fleet.path("nowhere")))
    wine.service("start", expect=None)
    fleet.wait_for("the exit code", lambda: "last exit code 1" in wine.service("status", expect=None)[0])
    moved(fleet, wine)
    wine.service("uninstall")
    ensure("it is gone", "not installed" in wine.service("status", expect=1)[1])


STRANGER = 12345


def moved(fleet, wine):
    """A directory above that others can move, own, or have made a link, or a configuration elsewhere that they can change: neither a
    start nor an installation takes it."""
    write_settings(fleet, wine, "wine")
    above, elsewhere = wine.drive("agents"), wine.drive("elsewhere")

    def link():
        os.rename(above, elsewhere)
        os.symlink(elsewhere, above)

    def no_link():
        os.remove(above)
        os.rename(elsewhere, above)

    def mode(path, bits):
        was = os.stat(path).st_mode & 0o777
        return lambda: os.chmod(path, bits), lambda: os.chmod(path, was)

    config = r"C:\settings\agent.yaml"
    plants = [(r"C:\agents can be moved or given away by others", *mode(above, 0o777)),
              (r"C:\agents is a link to another place", link, no_link),
              (config + " can be changed by others", *mode(wine.drive("settings", "agent.yaml"), 0o666))]
    if os.geteuid() == 0:
        plants.append((r"C:\agents belongs to", lambda: os.chown(above, STRANGER, STRANGER), lambda: os.chown(above, 0, 0)))
    else:
        print("not root: no directory above can belong to another user, so that is not tried")
    wine.service("uninstall")
    wine.service("install", "--config", config)  # which has not ended with an exit code
    for what, plant, undo in plants:
        plant()
        wine.service("start", expect=None)
        fleet.wait_for("a start to be refused: " + what, lambda: "last exit code 1" in wine.service("status", expect=None)[0])
        wine.service("uninstall")
        said = wine.service("install", "--config", config, expect=1)[1]
        ensure("so is an installation", what in said, said)
        undo()
        wine.service("install", "--config", config)
    wine.service("uninstall")
    plant, undo = mode(wine.exe, 0o777)
    plant()
    said = wine.service("install", "--config", config, expect=1)[1]
    ensure("a program that others can change is no service", "procfleet-agent.exe can be changed by others" in said, said)
    undo()
    wine.service("install", "--config", config)


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("the collector is a Linux program: build the preset release first")
if not WINESERVER:
    skip("there is no wineserver")
with Fleet() as fleet:
    fleet.start_collector()
    fleet.issue("agent", "wine")
    wine = Wine(fleet)
    try:
        life(fleet, wine)
        trouble(fleet, wine)
    finally:
        wine.end()
sys.exit(0)
