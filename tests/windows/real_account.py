"""real_account.py PACKAGE: the package's install.cmd with the least account there is. It must trace, or say why it does not."""

import json
import os
import sys

from real import SELFCHECK, Machine, argument

ACCOUNT = r"NT SERVICE\procfleet-agent"


def main():
    machine = Machine()
    package = argument(0)
    if SELFCHECK and not package:
        machine.real("install.cmd of the package with a virtual account: e2e_package runs the script under Wine")
        code, text = machine.agent("service", "install", "--help")
        machine.check("the service can be installed for an account", code == 0 and "--account" in text, text)
        machine.end()
    data, certs = machine.path("data"), os.environ["PROCFLEET_CERTS"]
    machine.run(os.path.join(package, "install.cmd"), "/collector", "127.0.0.1:9", "/certs", certs, "/name", "real", "/data", data,
                "/account", ACCOUNT, expect=0, timeout=300)
    config = os.path.join(data, "agent.yaml")

    machine.wait("the service says how it fares", lambda: machine.status(config).get("state") not in (None, "never"))
    machine.fact("status under %s: %s" % (ACCOUNT, json.dumps(machine.status(config))))
    log = machine.powershell("Get-Content -Raw '%s'" % os.path.join(data, "log", "agent.log"), expect=None)
    machine.check("it traces, or its log says what is refused", machine.traces(config) or "access denied" in log, log[-3000:])
    machine.run(os.path.join(package, "uninstall.cmd"), expect=0, timeout=300)
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
