"""The package for Windows: what is in it, that it comes out the same twice, and that its scripts install, upgrade and remove under Wine."""

import hashlib
import os
import subprocess
import sys
import zipfile

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, ROOT, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)
from prefix import WINESERVER, Prefix, windows  # noqa: E402

FILES = ["README.txt", "agent.md", "agent.sample.yaml", "etl-tool.md", "install.cmd", "metrics-windows.md", "procfleet-agent.exe",
         "procfleet-etl.exe", "procfleet.exe", "procfleet.wprp", "uninstall.cmd", "windows.md", "wpr.md"]
LICENCES = ["jansson", "libmicrohttpd", "libyaml", "mbedtls", "mingw-w64", "nng", "procfleet", "protobuf-c", "uthash", "xxhash",
            "zstd"]


def pack(out):
    subprocess.run([os.path.join(ROOT, "scripts", "package-windows"), "--bin", WINDOWS_BIN, "--out", out], check=True,
                   timeout=150, stdout=subprocess.DEVNULL)
    name, = (n for n in os.listdir(out) if n.endswith(".zip"))
    with open(os.path.join(out, name), "rb") as f:
        return os.path.join(out, name), f.read()


def look_inside(fleet):
    """The unpacked directory."""
    path, first = pack(fleet.path("one"))
    os.utime(os.path.join(WINDOWS_BIN, "procfleet.exe"))
    _, second = pack(fleet.path("two"))
    ensure("the same programs give the same bytes", first == second)
    with open(path + ".sha256") as f:
        check("its sum stands beside it", f.read().split(), [hashlib.sha256(first).hexdigest(), os.path.basename(path)])
    with zipfile.ZipFile(path) as z:
        names = z.namelist()
        top = names[0].partition("/")[0]
        check("it is named after its version", os.path.basename(path), top + ".zip")
        check("all is there and nothing else", names,
              ["%s/%s" % (top, n) for n in sorted(FILES + ["licences/%s.txt" % n for n in LICENCES])])
        for name in LICENCES:
            ensure("the licence of %s says something" % name, len(z.read("%s/licences/%s.txt" % (top, name))) > 900)
        sample = z.read(top + "/agent.sample.yaml")
        ensure("the sample has the defaults of Windows", rb"#state_dir: '%ProgramData%\procfleet'" in sample, sample)
        for name in ("install.cmd", "uninstall.cmd", "README.txt"):
            text = z.read("%s/%s" % (top, name))
            check("%s has the line ends of Windows" % name, text.count(b"\n"), text.count(b"\r\n"))
            for word in (b"icacls", b"powershell", b"takeown", b"%temp%", b"%tmp%", b"%random%", b" find ", b" type "):
                ensure("%s calls no program by its name and writes nothing where users do: %s" % (name, word.decode().strip()),
                       word not in text.lower() or name.endswith(".txt"))
        z.extractall(fleet.path("unpacked"))
    return fleet.path("unpacked", top)


def windows_data(data):
    return "C:" + data.partition("drive_c")[2].replace("/", "\\")


def sizes(directory):
    return {n: os.path.getsize(os.path.join(directory, n)) for n in os.listdir(directory)}


def install(fleet, wine, package):
    programs = wine.drive("Program Files", "procfleet")
    data = wine.drive("ProgramData", "procfleet")
    script = windows(os.path.join(package, "install.cmd"))
    certs = fleet.path("carried")
    fleet.issue("agent", "wine", out=certs)

    def call(*args, expect):
        return wine.cmd(script, *args, expect=expect)

    def refused(what, *args):
        call(*args, expect=2)
        ensure("%s: nothing was changed" % what, not os.path.exists(programs) and not os.path.exists(data))

    address = "127.0.0.1:" + fleet.ports["ingest"]
    refused("an unknown option", "/no", "such")
    refused("no collector", "/certs", windows(certs), "/name", "wine")
    refused("no certificate", "/collector", address)
    refused("a certificate that is not there", "/collector", address, "/certs", windows(certs), "/name", "other")
    good = ("/collector", address, "/certs", windows(certs), "/name", "wine")

    call(*good, "/set", "batch.max_age: 500ms", "/set", "identity.name: wine", "/nostart", expect=0)
    agent = os.path.join(programs, "procfleet-agent.exe")
    key, log = os.path.join(data, "tls", "agent.key"), os.path.join(data, "log", "agent.log")
    ensure("nobody else can use what was made", not any(os.stat(p).st_mode & 0o007 for p in (data, os.path.dirname(key), key)))
    os.chmod(key, 0o644)
    wine.run(agent, "service", "start", expect=None)  # it may be seen running before it ends
    fleet.wait_for("an open key to be refused", lambda: os.path.exists(log) and "others can read the key" in fleet.log(log))
    fleet.wait_for("its exit code", lambda: "last exit code" in wine.run(agent, "service", "status", expect=1)[0])
    wine.run(agent, "service", "prepare", "--data", windows_data(data))
    ensure("it is closed again", not os.stat(key).st_mode & 0o007)
    wine.run(agent, "service", "start")
    check("the programs are there", sorted(os.listdir(programs)),
          ["README.txt", "agent.sample.yaml", "procfleet-agent.exe", "procfleet-etl.exe", "procfleet.exe", "uninstall.cmd"])
    check("the keys are there", sorted(os.listdir(os.path.join(data, "tls"))), ["agent.key", "agent.pem", "ca.pem"])
    fleet.wait_for("data of the installed service", lambda: fleet.hosts().get("wine"))

    config = os.path.join(data, "agent.yaml")
    with open(config, "a") as f:
        f.write("log.level: warn\n")
    with open(config, "rb") as f:
        before = f.read()
    ensure("the configuration says what was asked", b"500ms" in before and address.encode() in before, before)
    os.truncate(os.path.join(programs, "README.txt"), 0)
    call("/collector", "other.example", expect=0)
    with open(config, "rb") as f:
        check("an upgrade keeps the configuration", f.read(), before)
    ensure("and brings new programs", sizes(programs)["README.txt"] > 0)
    ensure("nothing of the old ones stays", not os.path.exists(agent + ".old"))
    ensure("the service runs again", "running" in wine.run(agent, "service", "status")[0])
    return programs, data


def remove(wine, package, programs, data):
    script = windows(os.path.join(package, "uninstall.cmd"))
    agent = os.path.join(WINDOWS_BIN, "procfleet-agent.exe")
    wine.cmd(script, "/no", expect=2)
    wine.cmd(script, expect=0)
    ensure("the service is gone", "not installed" in wine.run(agent, "service", "status", expect=1)[1])
    ensure("the programs are gone", not os.path.exists(programs), programs)
    ensure("configuration and keys stay", os.path.exists(os.path.join(data, "agent.yaml"))
           and os.path.exists(os.path.join(data, "tls", "agent.key")))
    wine.cmd(script, "/purge", expect=0)
    ensure("until they are asked to go", not os.path.exists(data))


def broken(fleet, wine, package):
    """What does not work is told by the exit code."""
    certs = fleet.path("carried")
    args = ("/collector", "127.0.0.1:1", "/certs", windows(certs), "/name", "wine")
    script = windows(os.path.join(package, "install.cmd"))
    config = wine.drive("ProgramData", "procfleet", "agent.yaml")
    wine.cmd(script, *args, "/set", "no.such: 1", expect=2)
    ensure("a configuration that was refused does not stay", not os.path.exists(config))
    wine.cmd(script, *args, "/nostart", expect=0)
    agent = os.path.join(WINDOWS_BIN, "procfleet-agent.exe")
    ensure("/nostart leaves it stopped", "stopped" in wine.run(agent, "service", "status", expect=1)[0])
    out, err = wine.cmd(script, "/nostart", "/account", "NT SERVICE\\procfleet-agent", expect=0)
    ensure("an account that cannot be given its right is told", "the account did not get" in err, out + err)
    out, err = wine.cmd(script, "/nostart", expect=0)
    ensure("a service that is there is kept, with its account", "the account did not get" in err, out + err)
    wine.run(agent, "service", "uninstall")
    wine.run(agent, "service", "uninstall")
    out, err = wine.cmd(windows(os.path.join(package, "uninstall.cmd")), "/purge", expect=0)
    ensure("a service that is gone already is no obstacle", not os.path.exists(config), out + err)


STRANGER = 12345


def give_away(path):
    os.chown(path, STRANGER, STRANGER)


def planted(fleet, wine, package):
    """Whoever was there before the installer: what he put there is neither run, read nor written to."""
    if os.geteuid() != 0:
        print("not root: no file can belong to another user, so what others planted is not tried")
        return
    data, elsewhere = wine.drive("ProgramData", "procfleet"), fleet.path("elsewhere")
    certs, script = fleet.path("carried"), windows(os.path.join(package, "install.cmd"))
    args = ("/collector", "127.0.0.1:" + fleet.ports["ingest"], "/certs", windows(certs), "/name", "wine")
    agent = os.path.join(wine.drive("Program Files", "procfleet"), "procfleet-agent.exe")
    config, key, tls = (os.path.join(data, *n) for n in (("agent.yaml",), ("tls", "agent.key"), ("tls",)))
    os.mkdir(elsewhere)

    def directory():
        os.makedirs(tls)
        give_away(data)
        os.chmod(data, 0o777)
        return "belongs to"

    def configuration():
        os.makedirs(data)
        with open(config, "w") as f:
            f.write("collector.addresses: evil.example\n")
        give_away(config)
        return "agent.yaml belongs to"

    def identity():
        os.makedirs(tls)
        with open(key, "w") as f:
            f.write("a key that somebody has a copy of\n")
        give_away(key)
        return "agent.key belongs to"

    def junction():
        os.symlink(elsewhere, data)
        return "is a link to another place"

    def junction_inside():
        os.makedirs(data)
        os.symlink(elsewhere, tls)
        return "tls is a link to another place"

    for plant in (directory, configuration, identity, junction, junction_inside):
        cause = plant()
        before = os.lstat(data)
        err = wine.cmd(script, *args, expect=5)[1]
        ensure("%s: cause and remedy are said" % plant.__name__, cause in err and "removes C:" in err, err)
        check("%s: its owner is as it was" % plant.__name__, os.lstat(data).st_uid, before.st_uid)
        check("%s: nothing was written through it" % plant.__name__, os.listdir(elsewhere), [])
        ensure("no service", "not installed" in wine.run(agent, "service", "status", expect=1)[1])
        subprocess.run(["rm", "-rf", data], check=True)

    library = os.path.join(wine.drive("tools"), "bcrypt.dll")  # a program there would load it when it starts
    os.makedirs(os.path.dirname(library))
    with open(library, "w") as f:
        f.write("no library\n")
    give_away(library)
    err = wine.cmd(script, *args, "/dir", "C:\\tools", expect=5)[1]
    ensure("a library beside the programs is refused before one runs", "bcrypt.dll belongs to" in err, err)
    ensure("nothing was made then", not os.path.exists(data), data)
    subprocess.run(["rm", "-rf", os.path.dirname(library)], check=True)

    wine.cmd(script, *args, "/nostart", expect=0)
    log = os.path.join(data, "log")
    for path, undo in ((config, os.chown), (key, os.chown), (data, os.chown), (log, None)):
        if undo:
            give_away(path)
        else:
            ensure("a start that was refused has made nothing", not os.path.exists(path))
            os.symlink(elsewhere, path)
        name = os.path.basename(path)
        err = wine.run(agent, "run", "--config", windows_data(config), expect=1)[1]
        ensure("a start refuses %s" % name, "is a link" in err or "belongs to" in err, err)
        wine.run(agent, "service", "start", expect=None)
        fleet.wait_for("so does the service", lambda: "last exit code 1" in wine.run(agent, "service", "status", expect=1)[0])
        err = wine.run(agent, "service", "install", "--keep", "--config", windows_data(config), expect=1)[1]
        ensure("so does 'service install': %s" % name, "is a link" in err or "belongs to" in err, err)
        check("nothing was written through it", os.listdir(elsewhere), [])
        if undo:
            os.chown(path, 0, 0)
        else:
            os.remove(path)
    os.chmod(config, 0o666)
    err = wine.run(agent, "run", "--config", windows_data(config), expect=1)[1]
    ensure("a configuration that others can change is refused", "can be changed by others" in err, err)
    err = wine.cmd(script, *args, expect=5)[1]
    ensure("an installer does not keep it either", "look at what it holds" in err and "service prepare --accept" in err, err)
    wine.run(agent, "service", "prepare", "--accept", "--data", windows_data(data))
    ensure("it is closed again", not os.stat(config).st_mode & 0o007)
    os.chmod(os.path.dirname(data), 0o777)
    err = wine.cmd(script, *args, expect=5)[1]
    ensure("nothing is kept where others could move it", "ProgramData can be moved" in err, err)
    os.chmod(os.path.dirname(data), 0o755)
    wine.cmd(script, *args, expect=0)
    fleet.wait_for("data of the service", lambda: "running" in wine.run(agent, "service", "status")[0])
    wine.cmd(windows(os.path.join(package, "uninstall.cmd")), "/purge", expect=0)


def enrolled(fleet, wine, package):
    """With a token in place of files: the key is made there."""
    data = wine.drive("ProgramData", "procfleet")
    script = windows(os.path.join(package, "install.cmd"))
    config, token = os.path.join(data, "agent.yaml"), fleet.path("token.txt")
    args = ("/collector", "127.0.0.1:" + fleet.ports["ingest"], "/tokenfile", windows(token), "/name", "wine-token", "/set",
            "collector.enroll_address: 127.0.0.1:" + fleet.ports["enroll"], "/set", "batch.max_age: 500ms")
    wine.cmd(script, *args, expect=2)
    ensure("without the token's file nothing is changed", not os.path.exists(data))
    with open(token, "w") as f:
        f.write("pf1-0123\n")
    wine.cmd(script, *args, expect=6)
    ensure("a token that is none: the configuration does not stay", not os.path.exists(config))
    with open(token, "w") as f:
        f.write(fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("pki"))[1])
    wine.cmd(script, *args, expect=0)
    check("it was enrolled", sorted(os.listdir(os.path.join(data, "tls"))), ["agent.key", "agent.pem", "ca.pem"])
    fleet.wait_for("data of the enrolled service", lambda: fleet.hosts().get("wine-token"))
    wine.cmd(script, *args, expect=0)  # again, with a token that is used: it is not looked at
    wine.cmd(windows(os.path.join(package, "uninstall.cmd")), "/purge", expect=0)


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("the collector is a Linux program: build the preset release first")
if not WINESERVER:
    skip("there is no wineserver")
with Fleet() as fleet:
    package = look_inside(fleet)
    fleet.start_collector()
    wine = Prefix(fleet)
    try:
        places = install(fleet, wine, package)
        remove(wine, package, *places)
        broken(fleet, wine, package)
        planted(fleet, wine, package)
        enrolled(fleet, wine, package)
    finally:
        wine.end()
sys.exit(0)
