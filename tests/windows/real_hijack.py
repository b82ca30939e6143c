"""real_hijack.py PACKAGE: a user without rights makes %ProgramData%\\procfleet before the installer comes, with a configuration of
his own. The installer must refuse it with a sentence, and must not start anything."""

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
        state = machine.powershell("(Get-Service procfleet-agent -ErrorAction SilentlyContinue).Status", expect=None).strip()
        machine.check("nothing was started", state != "Running", state)
    machine.run("schtasks", "/delete", "/tn", USER, "/f")
    machine.run("net", "user", USER, "/delete")
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
