"""real_msi.py DIST: the MSI in DIST as a management system uses it: installed silently, repaired, removed."""

import glob
import os
import sys

from real import SELFCHECK, Machine, argument


def state(machine):
    text = machine.powershell("(Get-Service procfleet-agent -ErrorAction SilentlyContinue).Status", expect=None)
    return text.strip() or "none"


def msiexec(machine, how, msi, *properties):
    log = machine.path("msi.log")
    code, _ = machine.run("msiexec", how, msi, "/qn", "/l*v", log, *properties, timeout=300)
    with open(log, encoding="utf-16", errors="replace") as f:
        machine.check("msiexec %s" % how, code == 0, "%d\n%s" % (code, f.read()[-4000:]))


def main():
    machine = Machine()
    directory = argument(0)
    if SELFCHECK and not directory:
        machine.real("Windows Installer: e2e_msi tries the package with Wine's")
        machine.end()
    msi, = glob.glob(os.path.join(os.path.abspath(directory), "*.msi"))
    programs = os.path.join(os.environ["ProgramFiles"], "procfleet")
    data = os.path.join(os.environ["ProgramData"], "procfleet")
    exe = os.path.join(programs, "procfleet-agent.exe")
    machine.check("nothing is there yet", state(machine) == "none" and not os.path.exists(data), state(machine))
    msiexec(machine, "/i", msi, "COLLECTOR=127.0.0.1:9", "CERTS=" + machine.certs, "NAME=real")
    config = os.path.join(data, "agent.yaml")
    machine.wait("it runs", lambda: state(machine) == "Running")
    machine.wait("it traces", lambda: machine.traces(config))
    os.truncate(os.path.join(programs, "README.txt"), 0)
    machine.agent("service", "stop", expect=0)
    msiexec(machine, "/fa", msi)
    machine.wait("repaired, it runs", lambda: state(machine) == "Running")
    machine.check("what was damaged is whole", os.path.getsize(os.path.join(programs, "README.txt")) > 0)
    msiexec(machine, "/x", msi)
    machine.check("removed: no service, no programs", state(machine) == "none" and not os.path.exists(exe), state(machine))
    machine.check("configuration and keys stay", os.path.exists(config))
    machine.run("cmd", "/d", "/c", "rmdir", "/s", "/q", data)
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
