"""ClickHouse for tests: Debian's packages, downloaded once into .cache/clickhouse of the source tree, unpacked there and never
installed. Servers run on free ports in a temporary directory and are killed when the `with` block ends.

`python3 lab.py fetch` only gets the packages (scripts/install-deps --test does).
"""

import contextlib
import fcntl
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("PROCFLEET_CLICKHOUSE", os.path.join(ROOT, ".cache", "clickhouse"))
# The server and the libraries that it needs; those that the system has are unpacked all the same, so that any system will do.
SERVER = """clickhouse-server clickhouse-common libcapnp-0.9.2 libcctz2 libcpuinfo0 libfarmhash0 libjemalloc2 libmariadb3 libmetrohash1
libodbc2 libpococrypto80 libpocodata80 libpocodataodbc80 libpocofoundation80 libpocojson80 libpocomongodb80 libpoconet80
libpoconetssl80 libpocoutil80 libpocoxml80 librdkafka1 libboost-filesystem1.74.0 libboost-program-options1.74.0
libdouble-conversion3 libicu72 libltdl7 libre2-9 libsasl2-2 liblz4-1 libzstd1 zlib1g libpcre2-8-0 libexpat1""".split()
# What coordinates replicas; it needs a java besides.
KEEPER = """libzookeeper-java libdropwizard-metrics-java libsnappy-java libnetty-java libslf4j-java liblogback-java
libcommons-cli-java libcommons-io-java libjackson2-core-java libjackson2-databind-java libjackson2-annotations-java""".split()


class Missing(Exception):
    """The packages cannot be had here: why."""


def fetch(directory, names):
    return subprocess.run(["apt-get", "-q", "download", *names], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, env=dict(os.environ, LC_ALL="C"))


def download(names):
    """Packages that are not there yet, unpacked into CACHE/root."""
    debs, root = os.path.join(CACHE, "debs"), os.path.join(CACHE, "root")
    os.makedirs(debs, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        todo = [n for n in names if not os.path.exists(os.path.join(CACHE, "have", n))]
        if not todo:
            return
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise Missing("there is no apt-get here to get Debian's ClickHouse with")
        os.makedirs(os.path.join(CACHE, "have"), exist_ok=True)
        fetch(debs, todo)  # all at once, which is quick; what a system does not know spoils that
        for name in todo:
            found = glob.glob(os.path.join(debs, name + "_*.deb"))
            done = fetch(debs, [name]) if not found else None
            found = glob.glob(os.path.join(debs, name + "_*.deb"))
            if not found:
                if b"Unable to locate" in done.stdout and name.startswith("lib"):
                    open(os.path.join(CACHE, "have", name), "w").close()  # another release of Debian has none of that name
                    continue
                raise Missing("package %s cannot be downloaded" % name)
            subprocess.run(["dpkg-deb", "-x", found[0], root], check=True)
            os.remove(found[0])
            open(os.path.join(CACHE, "have", name), "w").close()


def binary():
    return os.path.join(CACHE, "root", "usr", "sbin", "clickhouse-server")


def environment():
    root = os.path.join(CACHE, "root")
    paths = [os.path.join(root, p) for p in ("usr/lib/x86_64-linux-gnu", "usr/lib", "lib/x86_64-linux-gnu")]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(p for p in paths if os.path.isdir(p)))


def prepare():
    """Raises Missing when there is no server to be had."""
    download(SERVER)
    if not os.path.exists(binary()):
        raise Missing("the package has no clickhouse-server")


def prepare_keeper():
    if not shutil.which("java"):
        raise Missing("there is no java for ZooKeeper")
    download(KEEPER)


def free_port():
    """Below the ports that outgoing connections get."""
    low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    import random
    while True:
        port = random.SystemRandom().randrange(10240, max(low, 20000))
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


CONFIG = """<yandex>
<logger><level>warning</level><console>1</console></logger>
<http_port>%(http)d</http_port><tcp_port>%(tcp)d</tcp_port><interserver_http_port>%(inter)d</interserver_http_port>
<interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<path>%(dir)s/data/</path><tmp_path>%(dir)s/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><max_concurrent_queries>50</max_concurrent_queries>
%(more)s
</yandex>
"""

USERS = """<yandex>
<profiles><default><max_memory_usage>2000000000</max_memory_usage></default><reader><readonly>1</readonly></reader></profiles>
<users>
<default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
<writer><password>secret</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></writer>
<reader><password></password><networks><ip>127.0.0.1</ip></networks><profile>reader</profile><quota>default</quota></reader>
</users><quotas><default></default></quotas>
</yandex>
"""


def text_of(answer):
    return answer.decode().rstrip("\n")


class Process:
    """What is started, killed, and started again."""

    process = None

    def launch(self, command, env, cwd):
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        self.process = None

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return f.read()


class Server(Process):
    def __init__(self, directory, more=""):
        self.dir = directory
        self.http, self.tcp, self.inter = free_port(), free_port(), free_port()
        for d in ("data", "tmp"):
            os.makedirs(os.path.join(directory, d), exist_ok=True)
        with open(os.path.join(directory, "config.xml"), "w") as f:
            f.write(CONFIG % dict(http=self.http, tcp=self.tcp, inter=self.inter, dir=directory, more=more))
        with open(os.path.join(directory, "users.xml"), "w") as f:
            f.write(USERS)

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.http

    def start(self, patience=60):
        self.launch([binary(), "--config-file=config.xml"], environment(), self.dir)
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                if self.ask("SELECT 1", timeout=5) == "1":
                    return self
            except OSError:
                pass
            if self.process.poll() is not None:  # it ends at once when it cannot reach ZooKeeper
                time.sleep(0.5)
                self.launch([binary(), "--config-file=config.xml"], environment(), self.dir)
            time.sleep(0.1)
        raise Missing("clickhouse-server does not start here: %s" % self.log()[-300:].replace("\n", " "))

    def ask(self, sql, database=None, timeout=60):
        """The answer as text; OSError when there is none."""
        url = self.url + "/?" + urllib.parse.urlencode({"database": database} if database else {})
        try:
            with urllib.request.urlopen(url, sql.encode(), timeout=timeout) as reply:
                return text_of(reply.read())
        except urllib.error.HTTPError as e:
            raise OSError("%s: %s" % (sql[:200], e.read().decode(errors="replace")[:400])) from None

    def table(self, sql, database="procfleet"):
        """Rows as lists of texts."""
        answer = self.ask(sql, database)
        return [line.split("\t") for line in answer.split("\n")] if answer else []

    def number(self, sql, database="procfleet"):
        return int(self.ask(sql, database))


class Engine(Server):
    """ClickHouse of today, without servers of its own: libchdb.so, which is in npm's package @chdb/lib-linux-x64-gnu (540 MB unpacked),
    behind shim.py. PROCFLEET_LIBCHDB names the file; else it is .cache/clickhouse/libchdb.so."""

    LIBRARY = os.environ.get("PROCFLEET_LIBCHDB", os.path.join(CACHE, "libchdb.so"))

    def __init__(self, directory):
        self.dir, self.http = directory, free_port()

    def start(self, patience=60):
        shim = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim.py")
        self.launch([sys.executable, "-B", shim, self.LIBRARY, self.dir, str(self.http)], dict(os.environ), self.dir)
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("SELECT 1", timeout=5)
                return self
            except OSError:
                time.sleep(0.2)
        raise Missing("the engine does not start: %s" % self.log()[-300:])


class Keeper(Process):
    def __init__(self, directory):
        self.dir, self.port = directory, free_port()
        os.makedirs(os.path.join(directory, "data"), exist_ok=True)
        with open(os.path.join(directory, "zoo.cfg"), "w") as f:
            f.write("tickTime=500\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                    "4lw.commands.whitelist=ruok\n" % (directory, self.port))

    def start(self, patience=60):
        jars = os.path.join(CACHE, "root", "usr", "share", "java", "*")
        self.launch(["java", "-Xmx256m", "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"],
                    dict(os.environ), self.dir)
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 2) as s:
                    s.sendall(b"ruok")
                    if s.recv(4) == b"imok":
                        return self
            except OSError:
                pass
            time.sleep(0.1)
        raise Missing("ZooKeeper does not start here: %s" % self.log()[-300:].replace("\n", " "))


class Lab:
    """`replicas` servers; two and more replicate through a ZooKeeper."""

    def __init__(self, replicas=1, directory=None):
        self.replicas, self.given = replicas, directory

    def __enter__(self):
        prepare()
        if self.replicas > 1:
            prepare_keeper()
        self.dir = self.given or tempfile.mkdtemp(prefix="procfleet-clickhouse-")
        self.keeper, self.servers = None, []
        try:
            self.open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def open(self):
        more = "<replica>%s</replica>"
        if self.replicas > 1:
            os.makedirs(os.path.join(self.dir, "keeper"), exist_ok=True)
            self.keeper = Keeper(os.path.join(self.dir, "keeper")).start()
            more = ("<zookeeper><node><host>127.0.0.1</host><port>%d</port></node><session_timeout_ms>6000</session_timeout_ms>"
                    "</zookeeper><macros><shard>1</shard><replica>r%%d</replica></macros>" % self.keeper.port)
        for i in range(self.replicas):
            directory = os.path.join(self.dir, "server%d" % i)
            os.makedirs(directory, exist_ok=True)
            self.servers.append(Server(directory, more % i if self.replicas > 1 else "").start())

    def __exit__(self, kind, *rest):
        for p in [*self.servers, *([self.keeper] if self.keeper else [])]:
            p.kill()
        if not self.given and kind is None and not os.environ.get("PROCFLEET_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)
        elif kind is not None:
            print("ClickHouse's files stay in", self.dir)

    @property
    def urls(self):
        return ",".join(s.url for s in self.servers)

    @property
    def server(self):
        return self.servers[0]


def opened(replicas=1):
    """A Lab for `with`, or the test ends as skipped."""
    try:
        prepare()
        if replicas > 1:
            prepare_keeper()
    except (Missing, OSError, subprocess.SubprocessError) as e:
        print("skipped:", e)
        sys.exit(77)
    return Lab(replicas)


@contextlib.contextmanager
def modern():
    """An Engine, or the test ends as skipped."""
    if not os.path.exists(Engine.LIBRARY) or not shutil.which("zstd"):
        print("skipped: no %s, or no zstd" % Engine.LIBRARY)
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="procfleet-engine-") as directory:
        engine = Engine(directory)
        try:
            yield engine.start()
        finally:
            engine.kill()


if __name__ == "__main__":
    try:
        prepare()
        if shutil.which("java"):
            prepare_keeper()
    except (Missing, OSError, subprocess.SubprocessError) as e:
        print(e)
        sys.exit(1)
