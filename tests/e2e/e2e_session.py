"""procfleet-agent session: what an administrator of the host asks of the running agent, and what everybody else does not get."""

import os
import pwd
import socket
import sys

from fleet import Fleet, check, ensure

HOST = "lab"


def main():
    with Fleet() as fleet:
        fleet.start_collector()
        args = fleet.agent_args(HOST, batch__max_age="500ms")
        state = fleet.path("agents", HOST)
        config = fleet.path("session.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write("state_dir: %s\n" % state)

        def session(*words, expect=0, **more):
            return fleet.run("procfleet-agent", "session", *words, "--config", config, expect=expect, **more)[1:]

        out, err = session("flags", expect=1)
        ensure("without an agent it says so", "is it running" in err, err)
        out, err = fleet.run("procfleet-agent", "session", "list", expect=1)[1:]
        ensure("Linux has no trace sessions, and says what there is", "no trace sessions" in err and "taskstats" in err, err)
        out, err = fleet.run("procfleet-agent", "session", "providers", expect=1)[1:]
        ensure("nor providers", "no trace sessions" in err, err)
        agent = fleet.start("procfleet-agent", "run", *args, log="agent.log")
        fleet.wait_for("its control", lambda: os.path.exists(os.path.join(state, "control")))
        check("the socket is its own", os.stat(os.path.join(state, "control")).st_mode & 0o777, 0o600)
        out, err = session("flags")
        ensure("the state is told", out.startswith("level     L") and "source    proc" in out, out)
        out, err = session("level", "L3", "--for", "1min")
        check("a level is taken", out, "level L3 for 60s\n")
        fleet.wait_for("the level", lambda: session("flags")[0].startswith("level     L3"))
        fleet.wait_for("the change to be an event", lambda: [
            e for e in fleet.ask("events", "--kind", "source", expect=None) if "asked for on this host: level L3 for 60s" in e["text"]])
        ensure("and a line of the log", "asked for on this host: level L3" in fleet.log("agent.log"))
        for words, said in ((("flags", "+network"), "the source proc has no flags"), (("stacks", "on"), "has no stacks"),
                            (("add", "Microsoft-Windows-DXGI"), "has no providers"), (("remove", "Microsoft-Windows-DXGI"), "has no providers")):
            out, err = session(*words, expect=1)
            ensure("what Linux has not is refused: %s" % " ".join(words), said in err, err)
        for words in (("flags", "network"), ("flags", "+net"), ("level", "L5"), ("level", "L1", "--for", "never"), ("stacks", "maybe")):
            session(*words, expect=2)
        hostile(state)
        ensure("hostile lines change nothing", session("flags")[0].startswith("level     L3"))
        if os.geteuid() == 0:
            stranger(fleet, state, config)
        agent.terminate()
        check("it ends", agent.wait(20), 0)
        ensure("its socket goes with it", not os.path.exists(os.path.join(state, "control")))


def hostile(state):
    """Who sends too much, nothing or garbage is answered or closed."""
    for line in (b"x" * 9000, b"\n", b'{"do":"level","level":0,"for_ns":-1}\n', b"\0\xff\n", b'{"do":"shell"}\n'):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(os.path.join(state, "control"))
            try:
                s.sendall(line)
                answer = s.recv(4096)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            ensure("refused: %r" % line[:30], answer == b"" or answer.startswith(b'{"ok": false'), answer)


def stranger(fleet, state, config):
    """Another user of the host, even where the directory lets him pass."""
    nobody = pwd.getpwnam("nobody")
    os.chmod(fleet.dir, 0o755)
    os.chmod(fleet.path("agents"), 0o755)
    os.chmod(state, 0o755)
    os.chmod(os.path.join(state, "control"), 0o666)
    pid = os.fork()
    if pid == 0:
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(state, "control"))
            try:
                s.sendall(b'{"do":"state"}\n')
                os._exit(1 if s.recv(100) else 0)
            except OSError:
                os._exit(0)
    check("a stranger is closed without a word", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


main()
sys.exit(0)
