"""doctor of the Windows agent where event tracing exists: rights are enough when the kernel takes a flag, not when a session starts."""

import json
import os
import subprocess
import sys

from winehost import AGENT, Fleet, WineHost, check, ensure, needs, windows
from prefix import WINE

PLAIN = os.environ["PROCFLEET_PLAIN"]


def doctor(host, name, **script):
    """Its findings on a host whose event tracing does as the script says."""
    fleet, path = host.fleet, host.fleet.path(name + ".script")
    with open(path, "w", encoding="ascii") as f:
        f.writelines("%s=%s\n" % (k.replace("__", "."), v) for k, v in script.items())
    args = [a.replace("=/", "=Z:/") for a in fleet.agent_args("winlab")]
    with open(fleet.path(name + ".json"), "wb+") as out:
        subprocess.run([WINE, AGENT, "doctor", "--format", "json", *args], env=dict(host.env, PROCFLEET_ETW_SCRIPT=windows(path)),
                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, timeout=90, check=False)
        out.seek(0)
        rows = {r["check"]: r for r in json.loads(out.read())}
    check("%s: whatever is wrong says what to do" % name,
          [r for r in rows.values() if r["state"] in ("failed", "warning") and not r["fix"]], [])
    return rows


def has(rows, name, state, words):
    row = rows.get(name, {})
    ensure("%s is %s: %s" % (name, state, words), row.get("state") == state and words in row["detail"], row)


needs()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        rows = doctor(host, "refused", fault__set_info="0,100000,5")
        has(rows, "rights.events", "warning", "takes no flag")
        has(rows, "etw.session", "warning", "flags of procfleet-doctor")
        rows = doctor(host, "crowded", more_sessions=1, holder="Process Monitor")
        has(rows, "etw.sessions", "ok", "1 and more sessions, 1 of 6 private system loggers (Process Monitor)")
        rows = doctor(host, "silent")
        has(rows, "rights.events", "ok", "takes flags")
        has(rows, "etw.session", "warning", "told of no process")
        recording = os.path.join(PLAIN, "net.4.5.2.x64.etl")
        if os.path.exists(recording):
            rows = doctor(host, "telling", recording=windows(recording), delay=0)
            has(rows, "rights.events", "ok", "takes flags")
            has(rows, "etw.session", "ok", "told who lives")
    finally:
        host.end()
sys.exit(0)
