"""Every file of the collector, the authority, an agent and a person has the mode that docs/security.md says, under any umask."""

import os
import stat

from fleet import Fleet, check, ensure

PUBLIC, PRIVATE = 0o644, 0o600


def modes(top):
    """Of everything below: relative path -> mode."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                found[os.path.relpath(path, top)] = stat.S_IMODE(os.lstat(path).st_mode)
            except FileNotFoundError:
                pass  # a temporary one
    return found


def look(umask):
    before = os.umask(umask)
    try:
        with Fleet() as fleet:
            fleet.start_collector()
            agent = fleet.start_agent("one", sampling__rate_hz=10, batch__max_age="200ms")
            fleet.wait_for("a row", lambda: fleet.ask("top", "--host", "one", expect=None))
            fleet.wait_for("status.json", lambda: os.path.exists(fleet.path("agents", "one", "status.json")))
            fleet.stop(agent)
            fleet.stop(fleet.collector)
            state, data, pki = modes(fleet.path("agents", "one")), modes(fleet.path("data")), modes(fleet.path("pki"))
            own = modes(fleet.path("tls"))
    finally:
        os.umask(before)
    where = "umask %03o: " % umask
    check(where + "status.json is for whoever may enter", state.pop("status.json"), PUBLIC)
    check(where + "ca.pem is for everybody", pki.pop("ca.pem"), PUBLIC)
    check(where + "certificates too", {m for f, m in own.items() if f.endswith(".pem")}, {PUBLIC})
    check(where + "keys are their owner's", {m for f, m in own.items() if f.endswith(".key")}, {PRIVATE})
    check(where + "the rest of the authority is private", {m & 0o077 for m in pki.values()}, {0})
    check(where + "and of the agent", {m & 0o077 for m in state.values()}, {0})
    catalogue = {f for f in data if ".db" in f or ".sqlite" in f}
    check(where + "and of the collector, but for the catalogue", {f: oct(m) for f, m in data.items() if m & 0o077 and f not in catalogue}, {})
    ensure(where + "which nobody else may write", not any(data[f] & 0o022 for f in catalogue), catalogue)


for mask in (0o000, 0o022, 0o077):
    look(mask)
