"""What `cmake --install` puts where, and what is in the Debian packages: nothing is missing, nothing else is there, and the
installed programs, units and samples fit each other."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import ensure, skip  # noqa: E402

TREE = os.environ["PROCFLEET_TREE"]
PROGRAMS = ("procfleet", "procfleet-agent", "procfleet-collector", "procfleet-forward", "procfleet-notify")
BESIDE = {"procfleet-agent": ["procfleet-etl"]}  # programs of a package beside its own
ALL_PROGRAMS = PROGRAMS + tuple(p for beside in BESIDE.values() for p in beside)
SERVICES = {name: "procfleet-" + name for name in ("agent", "collector", "forward", "notify")}
PACKAGES = dict(SERVICES, cli="procfleet")
ASKING = ("collector", "forward", "notify")  # the programs that ask others over HTTP: no other links libcurl


def run(*command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
                          check=False, **more)
    text = done.stdout.decode(errors="replace")
    ensure(" ".join(command[:2]), done.returncode == 0, text)
    return text


def setting(name):
    with open(os.path.join(TREE, "CMakeCache.txt")) as f:
        return re.search(r"^%s:\w+=(.*)$" % name, f.read(), re.M).group(1)


def files_below(top):
    return {os.path.relpath(os.path.join(d, name), top) for d, _, names in os.walk(top) for name in names}


def found_below(top, name):
    return next(os.path.join(d, name) for d, _, names in os.walk(top) if name in names)


def expected(prefix, conf, unit_dir):
    """Of every installation; documents and manual pages beside it."""
    files = {os.path.join(prefix, "bin", p) for p in ALL_PROGRAMS}
    files |= {os.path.join(prefix, "share/bash-completion/completions", p) for p in ALL_PROGRAMS}
    files |= {os.path.join(prefix, "share/doc", p, "LICENSE") for p in PROGRAMS}
    files |= {os.path.join(prefix, "share/man/man1", p + ".1") for p in ALL_PROGRAMS}
    files |= {os.path.join(prefix, "share", setting("PROCFLEET_ZSH_DIR"), "_" + p) for p in ALL_PROGRAMS}
    for name, program in SERVICES.items():
        files.add(os.path.join(conf, name + ".yaml"))
        files.add(os.path.join(prefix, unit_dir, program + ".service"))
    files.add(os.path.join(prefix, "share/doc/procfleet-collector/examples/lab-rules.yaml"))
    return {f.lstrip("/") for f in files}


def is_document(path):
    return re.search(r"share/(doc/[\w-]+/[\w-]+\.md|man/man1/procfleet-[\w-]+\.1)$", path)


def installs(top):
    prefix, conf = setting("CMAKE_INSTALL_PREFIX"), setting("PROCFLEET_CONF_DIR")
    run("cmake", "--install", TREE, env=dict(os.environ, DESTDIR=top))
    files = files_below(top)
    wanted = expected(prefix, conf, setting("PROCFLEET_UNIT_DIR"))
    ensure("all is installed", wanted <= files, wanted - files)
    others = [f for f in files - wanted if not is_document(f)]
    ensure("and nothing of the libraries", not others, others)
    for program in ALL_PROGRAMS:
        said = run(os.path.join(top, prefix.lstrip("/"), "bin", program), "--version")
        ensure("%s runs from there" % program, said.startswith(program + " "), said)
    for program in PROGRAMS:
        documents = os.path.join(prefix, "share/doc", program).lstrip("/") + "/"
        ensure("%s is documented" % program, any(f.startswith(documents) and f.endswith(".md") for f in files))
    said = run(os.path.join(top, prefix.lstrip("/"), "bin", "procfleet-agent"), "etl", "--version")
    ensure("the agent starts the program for recordings", said.startswith("procfleet-etl "), said)
    return prefix


def prints_its_unit(top, packaged):
    """The agent prints the packages' unit, with its own place and that of the configuration."""
    conf = setting("PROCFLEET_CONF_DIR")
    said = run(os.path.join(top, setting("CMAKE_INSTALL_PREFIX").lstrip("/"), "bin/procfleet-agent"), "service", "unit", "--config",
               conf + "/agent.yaml")
    own = [line for line in said.splitlines() if not line.startswith("ExecStart=")]
    theirs = [line for line in packaged.splitlines() if not line.startswith(("ExecStart=", "Documentation="))]
    ensure("the agent prints the same unit", own == theirs, sorted(set(own) ^ set(theirs)))
    ensure("which starts itself", re.search(r'^ExecStart="/\S+/procfleet-agent" run --config "%s/agent.yaml"$' % conf, said, re.M), said)
    said = run(os.path.join(TREE, "bin", "procfleet-agent"), "service", "unit", "--config", "/srv/lab 1/a.yaml")
    ensure("elsewhere it looks elsewhere", "ConditionPathExists=/srv/lab 1/a.yaml\n" in said and "=|/srv/lab 1/tls/*.pem\n" in said and
           '--config "/srv/lab 1/a.yaml"\n' in said and "@" not in re.sub("@(system-service|privileged|resources)", "", said), said)


def units(top):
    for name, program in SERVICES.items():
        with open(found_below(top, program + ".service")) as f:
            text = f.read()
        command = re.search(r"^ExecStart=(\S+) (?:run|otlp) --config (\S+)$", text, re.M)
        ensure("the unit of the %s starts what is installed" % name,
               command and all(os.path.exists(top + path) for path in command.groups()), text)
        ensure("it is told when the service is ready and watches it", "Type=notify\n" in text and "WatchdogSec=" in text)
        if name == "agent":
            prints_its_unit(top, text)
        ensure("nothing in it was left open", not re.search(r"@[A-Z_]+@", text), text)
        if not shutil.which("systemd-analyze"):
            print("systemd-analyze is not installed: it is not asked")
            continue
        fixed = os.path.join(top, program + ".service")  # as if it were installed in /
        with open(fixed, "w") as f:
            f.write(text.replace(command.group(1), top + command.group(1)))
        said = run("systemd-analyze", "verify", "--man=no", fixed)
        ensure("systemd has nothing to say of it", program not in said, said)
        said = run("systemd-analyze", "security", "--offline=yes", "--threshold=25", fixed)
        print(said.strip().splitlines()[-1])


def samples(top, prefix):
    for name, program in SERVICES.items():
        said = run(os.path.join(top, prefix.lstrip("/"), "bin", program), "config-sample")
        with open(found_below(top, name + ".yaml")) as f:
            ensure("the sample is that of %s" % program, f.read() == said)


def package_contents(debs):
    for component, package in PACKAGES.items():
        deb = next(os.path.join(debs, f) for f in os.listdir(debs) if f.startswith(package + "_"))
        control = run("dpkg-deb", "--info", deb)
        files = re.findall(r"^(\S+) (\S+) .* \.(/\S*)$", run("dpkg-deb", "--contents", deb), re.M)
        names = [name for _, _, name in files]
        ensure("%s depends on what it is linked with" % package, re.search(r"Depends: .*libc6 \(>=", control), control)
        ensure("%s links libcurl if it asks others" % package, ("libcurl4" not in control) or component in ASKING, control)
        ensure("%s belongs to root" % package, all(owner == "root/root" for _, owner, _ in files), files)
        ensure("%s has no file that others may write" % package,
               all(mode[5] != "w" and mode[8] != "w" for mode, _, _ in files), files)
        programs = [n for n in names if re.search(r"/bin/.", n)]
        own = sorted([package] + BESIDE.get(package, []))
        ensure("%s has its programs alone" % package, sorted(os.path.basename(p) for p in programs) == own, names)
        for end in ("/copyright", "/changelog.gz"):
            ensure("%s has %s" % (package, end[1:]), any(n.endswith("/doc/%s%s" % (package, end)) for n in names), names)
        for script in ("postinst", "prerm", "postrm", "conffiles") if component in SERVICES else ():
            ensure("%s has %s" % (package, script), re.search(r"^ .* %s\b" % script, control, re.M), control)


def purges(top):
    """What a purge deletes, by the packages' own scripts, in another place and with no other tool in reach."""
    tools = os.path.join(top, "tools")
    os.makedirs(tools)
    for tool in ("rm", "find"):
        os.symlink(shutil.which(tool), os.path.join(tools, tool))
    for name, word, stays in (("agent", None, None), ("collector", None, ["pki"]), ("collector", "purge-all", None)):
        state = os.path.join(top, "state")
        for d in ("pki", "tls", "wal"):
            os.makedirs(os.path.join(state, d))
        with open(os.path.join(state, "pki", "ca.key"), "w"):
            pass
        if word:
            os.makedirs(os.path.join(state, word))
        with open(os.path.join(TREE, "packaging/debian", name, "postrm")) as f:
            script = f.read().replace("/var/lib/" + SERVICES[name], state)
        ensure("the script names its directory", state in script, script)
        for user in ("procfleet-agent", "procfleet"):
            script = script.replace("getent passwd %s >" % user, "false >")
        said = run("/bin/sh", "-c", script, "postrm", "purge", env={"PATH": tools})
        left = os.listdir(state) if os.path.exists(state) else None
        ensure("a purge of the %s%s leaves %s" % (name, " with " + word if word else "", stays), left == stays, (left, said))
        ensure("and says so", ("/pki" in said) == bool(stays), said)
        shutil.rmtree(state, ignore_errors=True)


def packages(top):
    if not shutil.which("dpkg-shlibdeps"):
        print("dpkg-shlibdeps is not installed: no packages are made")
        return
    debs = os.path.join(top, "debs")
    run("cpack", "--config", os.path.join(TREE, "CPackConfig.cmake"), "-B", debs, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
    package_contents(debs)


if not shutil.which("cmake"):
    skip("cmake is not installed")
for target in PROGRAMS:
    if not os.path.exists(os.path.join(TREE, "bin", target)):
        skip("%s is not built" % target)
with tempfile.TemporaryDirectory(prefix="procfleet-install-") as directory:
    where = installs(directory)
    units(directory)
    samples(directory, where)
    purges(directory)
    packages(directory)
