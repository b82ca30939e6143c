"""The MSI of the agent under Wine: installed silently with a token, repaired, replaced by another one, removed; refused where others were first."""

import os
import re
import shutil
import subprocess
import sys

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, ROOT, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)
from prefix import WINESERVER, Prefix, windows  # noqa: E402

STRANGER = 12345
FAILED = 1627 & 0xff  # of Wine's msiexec, as much of it as an exit code holds here; Windows gives 1603


class Msi:
    """One package, and what msiexec does with it."""

    def __init__(self, fleet, wine, name):
        self.wine, self.log = wine, fleet.path(name + ".log")
        self.bin = fleet.path(name, "bin")
        os.makedirs(self.bin)
        os.symlink(os.path.join(os.path.dirname(WINDOWS_BIN), "_deps"), fleet.path(name, "_deps"))
        os.symlink(os.path.join(os.path.dirname(WINDOWS_BIN), "CMakeCache.txt"), fleet.path(name, "CMakeCache.txt"))
        for program in ("procfleet-agent.exe", "procfleet-etl.exe", "procfleet.exe"):
            shutil.copy(os.path.join(WINDOWS_BIN, program), self.bin)
        with open(os.path.join(self.bin, "procfleet.exe"), "ab") as f:
            f.write(name.encode())  # behind its end: another file, the same program
        out = fleet.path(name, "out")
        subprocess.run([os.path.join(ROOT, "scripts", "package-windows"), "--bin", self.bin, "--out", out], check=True, timeout=150,
                       stdout=subprocess.DEVNULL)
        self.path, = (os.path.join(out, n) for n in os.listdir(out) if n.endswith(".msi"))

    def run(self, how, *properties, expect=0):
        self.wine.run("msiexec", how, windows(self.path), "/qn", "/l*v", windows(self.log), *properties, expect=expect, timeout=120)

    def repair(self, *properties, expect=0):
        """As /fa does, which Wine's msiexec has not."""
        self.run("/i", "REINSTALL=ALL", "REINSTALLMODE=amus", *properties, expect=expect)


class Host:
    def __init__(self, fleet, wine):
        self.fleet, self.wine = fleet, wine
        self.programs, self.data = wine.drive("Program Files", "procfleet"), wine.drive("ProgramData", "procfleet")
        self.config = os.path.join(self.data, "agent.yaml")
        self.exe = os.path.join(self.programs, "procfleet-agent.exe")

    def service(self):
        """What the service manager says; the program may be gone."""
        out, err = self.wine.run(os.path.join(WINDOWS_BIN, "procfleet-agent.exe"), "service", "status", expect=None)
        return out + err

    def runs(self, what):
        self.fleet.wait_for(what + ": the service runs", lambda: "running" in self.service())


def token(fleet):
    return fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("pki"))[1].strip()


def life(fleet, wine, host, first, second):
    settings = "collector.enroll_address: 127.0.0.1:%s; batch.max_age: 500ms" % fleet.ports["enroll"]
    given = ("COLLECTOR=127.0.0.1:" + fleet.ports["ingest"], "NAME=wine-msi", "SETTINGS=" + settings)
    first.run("/i", *given, "TOKEN=pf1-0123", expect=FAILED)
    ensure("a token that is none: nothing stays", not os.path.exists(host.exe) and not os.path.exists(host.config))
    ensure("no service either", "not installed" in host.service())
    first.run("/i", *given, "TOKEN=" + token(fleet), "INSTALLDIR=C:\\tools", "ProgramDir=C:\\tools", "PROGRAMDIR=C:\\tools")
    host.runs("installed")
    ensure("no property moves the programs to where others write", not os.path.exists(wine.drive("tools")))
    check("all programs and texts are there", sorted(os.listdir(host.programs)),
          ["README.txt", "agent.sample.yaml", "licences.txt", "procfleet-agent.exe", "procfleet-etl.exe", "procfleet.exe"])
    fleet.wait_for("its data", lambda: fleet.hosts().get("wine-msi"))
    with open(host.config) as f:
        before = f.read()
    ensure("the settings are in it", "batch.max_age: 500ms" in before and re.search(r"^state_dir: 'C:.ProgramData.procfleet'$", before, re.M),
           before)
    ensure("nobody else can use it", not os.stat(host.data).st_mode & 0o007)

    os.remove(os.path.join(host.programs, "procfleet.exe"))
    wine.run(host.exe, "service", "uninstall")
    first.repair("DATA=C:\\evil", "COLLECTOR=evil.example", "CERTS=" + windows(fleet.path("pki")), "NOSTART=1")  # any user may
    host.runs("repaired")
    ensure("a repair takes no properties", not os.path.exists(wine.drive("evil")))
    ensure("what was missing is there again", os.path.exists(os.path.join(host.programs, "procfleet.exe")))

    second.run("/i")
    host.runs("upgraded")
    with open(os.path.join(host.programs, "procfleet.exe"), "rb") as f:
        ensure("the program is the new one", f.read().endswith(b"second"))
    with open(host.config) as f:
        check("the configuration is kept", f.read(), before)
    fleet.wait_for("data after it", lambda: not fleet.hosts()["wine-msi"].get("gaps"))

    second.run("/x")
    ensure("removed: no service", "not installed" in host.service())
    ensure("no programs", not os.path.exists(host.programs), host.programs)
    ensure("configuration and keys stay", os.path.exists(host.config) and os.path.exists(os.path.join(host.data, "tls", "agent.key")))
    second.run("/i", "NOSTART=1")
    ensure("installed again with what is there, and not started", "stopped" in host.service())
    second.run("/x")
    shutil.rmtree(host.data)


def planted(fleet, host, msi):
    """Whoever made the directory first, or put something into it."""
    if os.geteuid() != 0:
        print("not root: no file can belong to another user, so what others planted is not tried")
        return
    certs, elsewhere = fleet.path("carried"), fleet.path("elsewhere")
    fleet.issue("agent", "wine", out=certs)
    os.mkdir(elsewhere)
    tls = os.path.join(host.data, "tls")

    def write(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("collector.addresses: evil.example\n")
        os.chown(path, STRANGER, STRANGER)

    def owner():
        os.makedirs(tls)
        os.chown(host.data, STRANGER, STRANGER)

    def junction():
        os.makedirs(host.data)
        os.symlink(elsewhere, tls)

    def open_to_all():
        write(host.config)
        os.chown(host.config, 0, 0)
        os.chmod(host.config, 0o666)

    for what, plant in (("a foreign owner", owner), ("a configuration", lambda: write(host.config)),
                        ("a key", lambda: write(os.path.join(tls, "agent.key"))), ("a junction", junction),
                        ("a configuration that others could change", open_to_all)):
        plant()
        msi.run("/i", "COLLECTOR=127.0.0.1:" + fleet.ports["ingest"], "CERTS=" + windows(certs), "NAME=wine", expect=FAILED)
        ensure("%s is refused: no service" % what, "not installed" in host.service())
        ensure("%s: no program" % what, not os.path.exists(host.exe))
        check("%s: nothing was written through it" % what, os.listdir(elsewhere), [])
        shutil.rmtree(host.data)
    msi.run("/i", "COLLECTOR=127.0.0.1:" + fleet.ports["ingest"], "CERTS=" + windows(certs), "NAME=wine")
    host.runs("without them")
    planted_later(fleet, host, msi)
    msi.run("/x")


def planted_later(fleet, host, msi):
    """Where it is installed: neither a start nor a repair takes what others have put there."""
    tls, elsewhere = os.path.join(host.data, "tls"), fleet.path("moved")
    host.wine.run(host.exe, "service", "stop")

    def link():
        os.rename(tls, elsewhere)
        os.symlink(elsewhere, tls)

    def no_link():
        os.remove(tls)
        os.rename(elsewhere, tls)

    def given_away(path):
        return lambda: os.chown(path, STRANGER, STRANGER), lambda: os.chown(path, 0, 0)

    for cause, (plant, undo) in (("procfleet belongs to", given_away(host.data)), ("agent.yaml belongs to", given_away(host.config)),
                                 ("agent.key belongs to", given_away(os.path.join(tls, "agent.key"))),
                                 ("tls is a link to another place", (link, no_link))):
        plant()
        said = host.wine.run(host.exe, "run", "--config", "C:\\ProgramData\\procfleet\\agent.yaml", expect=1)[1]
        ensure("a start says: %s" % cause, cause in said, said)
        host.wine.run(host.exe, "service", "start", expect=None)
        fleet.wait_for("so it does as a service", lambda: "last exit code 1" in host.service())
        msi.repair(expect=FAILED)
        ensure("a repair starts nothing", "running" not in host.service())
        undo()
    msi.repair()
    host.runs("once they are gone")


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("the collector is a Linux program: build the preset release first")
if not WINESERVER:
    skip("there is no wineserver")
if not shutil.which("wixl") or not shutil.which("msibuild"):
    skip("wixl and msitools, which make the MSI, are missing (scripts/install-deps --windows)")
with Fleet() as fleet:
    fleet.start_collector()
    wine = Prefix(fleet)
    try:
        host = Host(fleet, wine)
        first, second = Msi(fleet, wine, "first"), Msi(fleet, wine, "second")
        life(fleet, wine, host, first, second)
        planted(fleet, host, second)
    finally:
        wine.end()
sys.exit(0)
