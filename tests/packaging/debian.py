"""A Debian of its own, for the tests of the packages: made by debootstrap from this system's own package sources, entered by chroot."""

import contextlib
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

    def follow(self, lines):
        """Lines of a document, in one shell of root's at home, which ends at the first that fails."""
        print("-- " + "\n-- ".join(lines), flush=True)
        return self.do("sh", "-ec", "cd /root\n" + "\n".join(lines))

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
        if time.monotonic() > end:
            ensure("waited %d s for %s" % (patience, what), False)
        time.sleep(0.1)


def documented(section):
    """The command lines of a section of docs/operating.md, block by block: what is indented by four or more. The test runs what the
    reader reads."""
    with open(os.path.join(ROOT, "docs", "operating.md")) as f:
        text = re.search(r"^#+ %s\n(.*?)(?=^#+ |\Z)" % re.escape(section), f.read(), re.M | re.S)
    if not text:
        ensure("docs/operating.md has a section %s" % section, False)
    blocks = re.findall(r"(?:^ {4,}\S.*\n)+", text.group(1).replace("\\\n", ""), re.M)
    return [[re.sub(r"\s{2,}(#.*)?", " ", line.strip()).strip() for line in block.splitlines()] for block in blocks]


def needed(*tools):
    """The release and the source to take Debian from; skips where there is none. Who is told to end (SIGTERM) cleans up before."""
    if os.geteuid() != 0:
        skip("a chroot needs root")
    for tool in ("debootstrap", "chroot", "apt-get", *tools):
        if not shutil.which(tool):
            skip("%s is not installed" % tool)
    suite, source = release_of_this_system()
    if not suite:
        skip("this system has no package source of its own release")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return suite, source


def bootstrap(top, suite, source, *included):
    """The smallest Debian there is, with these packages. What debootstrap mounts and starts on the way ends with it."""
    include = ["--include=" + ",".join(included)] if included else []
    run("unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase", *include, suite, top, source,
        timeout=1800)


@contextlib.contextmanager
def made(*included):
    """A tree with these of Debian's packages, and ours in two versions, one after the other: (top, first, again)."""
    suite, source = needed("dpkg-shlibdeps", "unshare")
    with tempfile.TemporaryDirectory(prefix="procfleet-debian-") as place:
        top = os.path.join(place, "debian")
        debs = make_packages(os.path.join(place, "debs"))
        bootstrap(top, suite, source, "adduser", *included)
        run("mount", "-t", "proc", "proc", os.path.join(top, "proc"))
        try:
            yield top, *debs
        finally:
            run("umount", os.path.join(top, "proc"))
