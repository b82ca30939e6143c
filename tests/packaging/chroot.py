"""The Debian packages in a Debian of their own (debootstrap): installed, upgraded, removed and purged; edited configurations stay,
data goes with a purge alone, and the programs work there. Nothing runs as a service in a chroot: the units' commands are run by
hand. Needs root, debootstrap and the system's own apt sources; takes minutes (ctest -C long)."""

import os
import signal

from debian import CONF, PACKAGES, STATE, Debian, check, ensure, made, wait_for


def edit(debian, **ports):
    """An administrator's settings and certificates; ports, since the network is that of the machine around it."""
    with open(debian.path(CONF["procfleet-collector"]), "a") as f:
        for name, port in ports.items():
            f.write("listen.%s: '127.0.0.1:%d'\n" % (name, port))
        f.write("# of the administrator\n")
    with open(debian.path(CONF["procfleet-agent"]), "a") as f:
        f.write("collector.addresses: ['127.0.0.1:%d']\n# of the administrator\n" % ports["ingest"])
    pki = "/var/lib/procfleet-collector/pki"
    debian.as_user("procfleet", "procfleet-collector", "pki", "init", "--dir", pki)
    debian.as_user("procfleet", "procfleet-collector", "pki", "issue", "--dir", pki, "--role", "collector", "--name", "collector",
                   "--out", "/var/lib/procfleet-collector/tls")
    debian.do("procfleet-collector", "pki", "issue", "--dir", pki, "--role", "agent", "--name", "inside", "--out", "/tmp/inside")
    debian.do("sh", "-c", "cd /tmp/inside && install -d -o procfleet-agent -g procfleet-agent -m 700 /var/lib/procfleet-agent/tls && "
              "install -o procfleet-agent -m 644 ca.pem /var/lib/procfleet-agent/tls/ca.pem && "
              "install -o procfleet-agent -m 644 inside.pem /var/lib/procfleet-agent/tls/agent.pem && "
              "install -o procfleet-agent -m 600 inside.key /var/lib/procfleet-agent/tls/agent.key")


def installed(debian, version):
    for package in PACKAGES:
        check("%s is installed" % package, debian.state(package), "installed")
        check("in version", debian.version(package), version)
        ensure("it runs", debian.do("/usr/bin/" + package, "--version").startswith(package + " "))
    for package, user in STATE.items():
        check("the user %s owns its directory alone" % user, debian.owner_and_mode("/var/lib/" + package), "%s %s 750" % (user, user))
        ensure("the service is enabled", debian.enabled(package))
        ensure("a configuration is there", debian.has(CONF[package]))


def stored(debian):
    """Bytes by file of the collector's log."""
    log = debian.path("/var/lib/procfleet-collector/wal")
    return {name: os.path.getsize(os.path.join(log, name)) for name in os.listdir(log)}


def work(debian):
    """Both services, by the commands of their units, as their users, until data has arrived."""
    out = debian.as_user("procfleet", "procfleet-collector", "doctor", "--config", CONF["procfleet-collector"], expect=None)
    ensure("doctor finds nothing in the way", " 0 failed, " in out, out)
    logs = {package: "/tmp/%s.log" % package for package in STATE}
    started = []
    try:
        for package in ("procfleet-collector", "procfleet-agent"):
            started.append(debian.start(STATE[package], debian.command_of(package), logs[package]))
            if package == "procfleet-collector":
                wait_for("the collector to be ready", lambda: "collector ready" in debian.read(logs[package]))
                before = stored(debian)
        wait_for("the agent to connect", lambda: "connected" in debian.read(logs["procfleet-agent"]))
        wait_for("its data to arrive", lambda: any(n > before.get(name, 0) for name, n in stored(debian).items()))
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            check("a service ends well", process.wait(60), 0)
    finally:
        for process in started:
            process.kill()
        for package, log in logs.items():
            print("-- %s\n%s" % (package, debian.read(log)[-2000:] if debian.has(log) else ""))


def edits_are_there(debian):
    return all(debian.read(conf).count("# of the administrator") == 1 for conf in CONF.values())


def life(debian, first, again):
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(first))
    installed(debian, "0.1.0")
    edit(debian, ingest=47420, query=0, events=0, enroll=0, http=0)
    work(debian)
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(again))
    installed(debian, "0.1.1")
    ensure("an upgrade keeps what was edited", edits_are_there(debian))
    work(debian)
    debian.do("apt-get", "remove", "-y", *PACKAGES)
    for package in PACKAGES:
        ensure("%s is gone" % package, not debian.has("/usr/bin/" + package))
    ensure("a removal keeps settings and data", edits_are_there(debian) and debian.has("/var/lib/procfleet-collector/pki/ca.key"))
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(again))
    installed(debian, "0.1.1")
    debian.do("apt-get", "purge", "-y", *PACKAGES)
    state = "/var/lib/procfleet-collector"
    check("a purge keeps the authority", os.listdir(debian.path(state)), ["pki"])
    ensure("with its key, its book and its user", debian.has(state + "/pki/ca.key") and
           debian.do("getent", "passwd", STATE["procfleet-collector"]).startswith("procfleet:"))
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(again))
    ensure("which the next installation finds", debian.has(state + "/pki/ca.key"))
    debian.do("touch", state + "/purge-all")
    debian.do("apt-get", "purge", "-y", *PACKAGES)
    for package, user in STATE.items():
        ensure("a purge of all leaves nothing of %s" % package,
               not debian.has("/var/lib/" + package) and not debian.has(CONF[package]) and not debian.enabled(package))
        check("nor its user", debian.do("getent", "passwd", user, expect=None), "")
    ensure("nor the directory of settings", not debian.has("/etc/procfleet"))


with made() as (tree, *versions):
    life(Debian(tree), *versions)
