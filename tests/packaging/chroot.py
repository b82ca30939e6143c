"""The Debian packages in a Debian of their own (debootstrap): installed, upgraded, removed and purged; edited configurations stay,
data goes with a purge alone, and the programs work there. Nothing runs as a service in a chroot: the units' commands are run by
hand. Needs root, debootstrap and the system's own apt sources; takes minutes (ctest -C long)."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import ROOT, check, ensure, skip  # noqa: E402

PACKAGES = ("procfleet", "procfleet-agent", "procfleet-collector")
STATE = {"procfleet-agent": "procfleet-agent", "procfleet-collector": "procfleet"}  # package (and directory): user
CONF = {"procfleet-agent": "/etc/procfleet/agent.yaml", "procfleet-collector": "/etc/procfleet/collector.yaml"}


def run(*command, expect=0, env=None, timeout=900):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                          env=env, check=False)
    text = done.stdout.decode(errors="replace")
    if expect is not None and done.returncode != expect:
        print("FAILED: %s gave %d\n%s" % (" ".join(command), done.returncode, text[-4000:]))
        sys.exit(1)
    return text


def release_of_this_system():
    """Its codename and the first of its package sources."""
    with open("/etc/os-release") as f:
        release = re.search(r"^VERSION_CODENAME=(\w+)", f.read(), re.M)
    sources = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages", expect=None)
    for line in sources.splitlines():
        uri, suite, component = (line.split() + ["", "", ""])[:3]
        if release and suite == release.group(1) and component == "main":
            return suite, uri
    return None, None


class Debian:
    def __init__(self, top):
        self.top = top
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
                    "HOME": "/root"}

    def do(self, *command, expect=0):
        return run("chroot", self.top, *command, expect=expect, env=self.env)

    def as_user(self, user, *command, expect=0):
        return self.do("runuser", "-u", user, "--", *command, expect=expect)

    def path(self, inside):
        return self.top + inside

    def has(self, inside):
        return os.path.lexists(self.path(inside))

    def take(self, debs):
        for deb in debs:
            shutil.copy(deb, self.path("/tmp"))
        return ["/tmp/" + os.path.basename(d) for d in debs]

    def state(self, package):
        return self.do("dpkg-query", "-W", "-f=${db:Status-Status}", package, expect=None).split("\n")[0]

    def version(self, package):
        return self.do("dpkg-query", "-W", "-f=${Version}", package)

    def owner_and_mode(self, inside):
        return self.do("stat", "-c", "%U %G %a", inside).strip()

    def enabled(self, package):
        return self.has("/etc/systemd/system/multi-user.target.wants/%s.service" % package)

    def command_of(self, package):
        for directory in ("/lib/systemd/system", "/usr/lib/systemd/system"):
            if self.has("%s/%s.service" % (directory, package)):
                with open(self.path("%s/%s.service" % (directory, package))) as f:
                    return re.search(r"^ExecStart=(.+)$", f.read(), re.M).group(1).split()
        return None

    def start(self, user, command, log):
        with open(self.path(log), "wb") as f:
            return subprocess.Popen(["chroot", "--userspec=%s:%s" % (user, user), self.top, *command], env=self.env,
                                    stdin=subprocess.DEVNULL, stdout=f, stderr=f)

    def read(self, inside):
        with open(self.path(inside), errors="replace") as f:
            return f.read()


def make_packages(out):
    built = []
    for more in ([], ["--version", "0.1.1"]):
        to = os.path.join(out, "again" if more else "first")
        run(os.path.join(ROOT, "scripts", "package-debian"), "--quick", "--out", to, *more, timeout=3000)
        built.append(sorted(os.path.join(to, name) for name in os.listdir(to)))
        check("three packages", len(built[-1]), 3)
    return built


def wait_for(what, condition, patience=60):
    end = time.monotonic() + patience
    while not condition():
        ensure(what, time.monotonic() < end)
        time.sleep(0.1)


def installed(debian, version):
    for package in PACKAGES:
        check("%s is installed" % package, debian.state(package), "installed")
        check("in version", debian.version(package), version)
        ensure("it runs", debian.do("/usr/bin/" + package, "--version").startswith(package + " "))
    for package, user in STATE.items():
        check("the user %s owns its directory alone" % user, debian.owner_and_mode("/var/lib/" + package), "%s %s 750" % (user, user))
        ensure("the service is enabled", debian.enabled(package))
        ensure("a configuration is there", debian.has(CONF[package]))


def edit(debian):
    """Settings of an administrator, who also makes the certificates, as docs/operating.md says."""
    with open(debian.path(CONF["procfleet-collector"]), "a") as f:
        for name in ("ingest", "query", "events", "enroll", "http"):
            f.write("listen.%s: '127.0.0.1:%s'\n" % (name, 0 if name != "ingest" else 47420))
        f.write("# of the administrator\n")
    with open(debian.path(CONF["procfleet-agent"]), "a") as f:
        f.write("collector.addresses: ['127.0.0.1:47420']\n# of the administrator\n")
    pki = "/var/lib/procfleet-collector/pki"
    debian.as_user("procfleet", "procfleet-collector", "pki", "init", "--dir", pki)
    debian.as_user("procfleet", "procfleet-collector", "pki", "issue", "--dir", pki, "--role", "collector", "--name", "collector",
                   "--out", "/var/lib/procfleet-collector/tls")
    debian.do("procfleet-collector", "pki", "issue", "--dir", pki, "--role", "agent", "--name", "inside", "--out", "/tmp/inside")
    debian.do("sh", "-c", "cd /tmp/inside && install -d -o procfleet-agent -g procfleet-agent -m 700 /var/lib/procfleet-agent/tls && "
              "install -o procfleet-agent -m 644 ca.pem /var/lib/procfleet-agent/tls/ca.pem && "
              "install -o procfleet-agent -m 644 inside.pem /var/lib/procfleet-agent/tls/agent.pem && "
              "install -o procfleet-agent -m 600 inside.key /var/lib/procfleet-agent/tls/agent.key")


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
    edit(debian)
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


def main():
    if os.geteuid() != 0:
        skip("a chroot needs root")
    for tool in ("debootstrap", "chroot", "dpkg-shlibdeps", "apt-get"):
        if not shutil.which(tool):
            skip("%s is not installed" % tool)
    suite, source = release_of_this_system()
    if not suite:
        skip("this system has no package source of its own release")
    with tempfile.TemporaryDirectory(prefix="procfleet-chroot-") as place:
        root = os.path.join(place, "debian")
        debs = make_packages(os.path.join(place, "debs"))
        run("debootstrap", "--variant=minbase", "--include=adduser", suite, root, source, timeout=1800)
        run("mount", "-t", "proc", "proc", os.path.join(root, "proc"))
        try:
            life(Debian(root), *debs)
        finally:
            run("umount", os.path.join(root, "proc"))


if __name__ == "__main__":
    main()
