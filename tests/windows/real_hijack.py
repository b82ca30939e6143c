"""real_hijack.py PACKAGE DIST: a user without rights makes %ProgramData%\\procfleet before the installers come, with a configuration
of his own. install.cmd of PACKAGE and the MSI in DIST must refuse it with a sentence, and must not start anything."""

import glob
import os
import secrets
import sys

from real import SELFCHECK, Machine, argument

USER = "procfleet-planter"


def planted(machine, directory):
    """Made by that user: a task of his own runs the command, whose files he then owns."""
    password = "Aa1!" + secrets.token_hex(5)  # of more than 14 characters 'net user' asks whether they are meant
    machine.run("net", "user", USER, password, "/add", expect=0)
    script = os.path.join(os.environ["PUBLIC"], "plant.cmd")
    with open(script, "w", encoding="ascii") as f:
        f.write('@mkdir "%s"\n@echo state_dir: "C:\\Users\\Public\\evil" > "%s\\agent.yaml"\n' % (directory, directory))
    machine.run("schtasks", "/create", "/tn", USER, "/tr", script, "/sc", "once", "/st", "23:59", "/ru", USER, "/rp", password,
                "/f", expect=0)
    machine.run("schtasks", "/run", "/tn", USER, expect=0)
    return machine.wait("the directory is planted", lambda: os.path.exists(os.path.join(directory, "agent.yaml")), 60)


def refused_by_msi(machine, msi):
    """1603, and what the agent said stands in the event log."""
    machine.run("msiexec", "/i", msi, "/qn", "COLLECTOR=127.0.0.1:9", "CERTS=" + os.environ["PROCFLEET_CERTS"], "NAME=real",
                expect=1603, timeout=300)
    text = machine.powershell("Get-WinEvent -FilterHashtable @{LogName='Application'; ProviderName='procfleet-agent'} "
                              "-ErrorAction SilentlyContinue | Select-Object -First 5 | ForEach-Object { $_.Message }", expect=None)
    machine.check("the event log says what the MSI refuses", "belongs to" in text, text)


def main():
    machine = Machine()
    package = argument(0)
    if SELFCHECK and not package:
        machine.real("users without rights, owners of files: Wine knows one user")
        machine.end()
    directory = os.path.join(os.environ["ProgramData"], "procfleet")
    machine.check("nothing is there yet", not os.path.exists(directory))
    if planted(machine, directory):
        owner = machine.powershell("(Get-Acl '%s').Owner" % directory).strip()
        machine.check("the planter owns it", USER in owner, owner)
        code, text = machine.run(os.path.join(package, "install.cmd"), "/collector", "127.0.0.1:9", "/certs",
                                 os.environ["PROCFLEET_CERTS"], "/name", "real", timeout=300)
        machine.check("the installer refuses, and says what it refuses", code != 0 and "procfleet" in text.lower() and
                      ("owner" in text.lower() or "belongs" in text.lower()), "%d: %s" % (code, text))
        refused_by_msi(machine, *glob.glob(os.path.join(os.path.abspath(argument(1)), "*.msi")))
        state = machine.powershell("(Get-Service procfleet-agent -ErrorAction SilentlyContinue).Status", expect=None).strip()
        machine.check("nothing was started", state != "Running", state)
    machine.run("takeown", "/f", directory, "/a", "/r", "/d", "y")
    machine.run("cmd", "/d", "/c", "rmdir", "/s", "/q", directory)
    machine.run("schtasks", "/delete", "/tn", USER, "/f")
    machine.run("net", "user", USER, "/delete")
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
