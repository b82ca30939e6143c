"""A throw-away fleet of real processes for end-to-end tests: authority, collector, agents, command line.

Standard library only. Everything lives in one temporary directory, listens on ports the system picks, and is killed when the
`with` block ends. Binaries come from $PROCFLEET_BIN (ctest sets it to build/<preset>/bin).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.environ.get("PROCFLEET_BIN", "build/release/bin")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLECTOR = os.environ.get("PROCFLEET_RUN_COLLECTOR", "procfleet-collector")  # what runs as the collector
WIDE = re.compile(r"(.*_)?time|.*_ns|start|(thread_)?cpu_cycles|affinity_mask|agent\.callback_p99")  # keys of 64 bits
PATIENCE = float(os.environ.get("PROCFLEET_PATIENCE", "60"))


def skip(reason):
    """Ends the test as skipped: ctest and people see why."""
    print("skipped:", reason)
    sys.exit(77)


def read_json(text):
    """JSON that a program printed; what may exceed 2^53, a string of digits there, is a number again."""
    def numbers(row):
        return {k: int(v) if isinstance(v, str) and WIDE.fullmatch(k) and re.fullmatch(r"-?\d+", v) else v for k, v in row.items()}
    return json.loads(text, object_hook=numbers)


def corpus(name):
    """Path of a recording, or skips."""
    base = os.environ.get("PROCFLEET_CORPUS", os.path.join(ROOT, "..", "shared", "corpus"))
    path = os.path.join(base, name)
    if not os.path.exists(path):
        skip("corpus not found (PROCFLEET_CORPUS names another place)")
    return path


def check(what, got, expected):
    if got != expected:
        print("FAILED: %s\n  got      %r\n  expected %r" % (what, got, expected))
        sys.exit(1)
    print("ok: %s" % what)


def ensure(what, condition, detail=""):
    if not condition:
        print("FAILED: %s %s" % (what, detail))
        sys.exit(1)
    print("ok: %s" % what)


def span(hours_back, hours_ahead):
    """Options of a question about so many hours before now and behind it."""
    form, now = "%Y-%m-%dT%H:%M:%SZ", time.time()
    return ["--since", time.strftime(form, time.gmtime(now - hours_back * 3600)),
            "--until", time.strftime(form, time.gmtime(now + hours_ahead * 3600))]


class Fleet:
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="procfleet-e2e-")
        self.processes = []
        self.ports = {}
        self.collector = None
        self.run("procfleet-collector", "pki", "init", "--dir", self.path("pki"), "--name", "test authority")
        self.issue("collector", "collector", "pki", None, "--dns", "localhost")
        self.issue("query", "operator")
        self.issue("subscribe", "subscriber")
        return self

    def __exit__(self, kind, *rest):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()
        if kind is not None or os.environ.get("PROCFLEET_KEEP"):
            print("files stay in", self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def run(self, program, *args, env=None, timeout=120, expect=0):
        """Runs a program to its end; returns (exit code, standard output, standard error)."""
        done = subprocess.run([os.path.join(BIN, program), *args], env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = done.stdout.decode(), done.stderr.decode()
        if expect is not None and done.returncode != expect:
            print("FAILED: %s %s gave %d, not %d\n%s\n%s" % (program, " ".join(args), done.returncode, expect, out, err))
            sys.exit(1)
        return done.returncode, out, err

    def issue(self, role, name, ca="pki", out=None, *more):
        out = out or self.path("tls", name)
        self.run("procfleet-collector", "pki", "issue", "--dir", self.path(ca), "--role", role, "--name", name,
                 "--out", out, *more)
        return self.tls(name, out)

    def tls(self, name, out=None):
        out = out or self.path("tls", name)
        return {"ca": self.path("pki", "ca.pem"), "cert": os.path.join(out, name + ".pem"),
                "key": os.path.join(out, name + ".key")}

    def start(self, program, *args, log, env=None):
        f = open(self.path(log), "ab")
        p = subprocess.Popen([os.path.join(BIN, program), *args], stdin=subprocess.DEVNULL, stdout=f, stderr=f, env=env)
        f.close()
        self.processes.append(p)
        return p

    def start_collector(self, **settings):
        """Starts, or restarts on the same ports, and waits until it listens."""
        ports = self.path("ports")
        if os.path.exists(ports):
            os.remove(ports)
        tls = self.tls("collector")
        conf = {"data_dir": self.path("data"), "tls.ca": tls["ca"], "tls.cert": tls["cert"], "tls.key": tls["key"]}
        conf["pki.dir"] = self.path("pki")
        for name in ("ingest", "query", "events", "enroll", "http"):
            conf["listen." + name] = "127.0.0.1:%s" % self.ports.get(name, 0)
        conf.update({k.replace("__", "."): v for k, v in settings.items()})
        args = ["run", "--ports-file", ports]
        for k, v in conf.items():
            args += ["--set", "%s=%s" % (k, v)]
        self.collector = self.start(COLLECTOR, *args, log="collector.log")
        self.wait_for("the collector to listen", lambda: os.path.exists(ports) or self.collector.poll() is not None)
        if self.collector.poll() is not None:
            print(open(self.path("collector.log")).read())
            print("FAILED: the collector ended with", self.collector.returncode)
            sys.exit(1)
        for line in open(ports):
            name, _, port = line.strip().partition("=")
            self.ports[name] = port
        return self.collector

    def agent_args(self, name, **settings):
        if not os.path.exists(self.tls(name)["cert"]):
            self.issue("agent", name)
        tls = self.tls(name)
        conf = {"state_dir": self.path("agents", name), "collector.addresses": "127.0.0.1:" + self.ports["ingest"],
                "identity.name": name, "tls.ca": tls["ca"], "tls.cert": tls["cert"], "tls.key": tls["key"]}
        conf.update({k.replace("__", "."): v for k, v in settings.items()})
        os.makedirs(self.path("agents", name), exist_ok=True)
        args = []
        for k, v in conf.items():
            args += ["--set", "%s=%s" % (k, v)]
        return args

    def start_agent(self, name, **settings):
        return self.start("procfleet-agent", "run", *self.agent_args(name, **settings), log="agent-%s.log" % name)

    def replay(self, name, trace, *more, **settings):
        return self.run("procfleet-agent", "replay", *self.agent_args(name, **settings), *more, trace, timeout=300)

    def cli(self, *args, who="operator", expect=0, timeout=120):
        tls = self.tls(who)
        env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + self.ports["query"],
                   PROCFLEET_EVENTS="127.0.0.1:" + self.ports["events"], PROCFLEET_CA=tls["ca"],
                   PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
        return self.run("procfleet", *args, env=env, expect=expect, timeout=timeout)

    def ask(self, *args, expect=0, **more):
        """A question answered as JSON."""
        _, out, _ = self.cli(*args, "--format", "json", expect=expect, **more)
        return read_json(out)

    def hosts(self):
        return {h["host"]: h for h in self.ask("hosts", expect=None)}

    def log(self, name):
        with open(self.path(name), errors="replace") as f:
            return f.read()

    @staticmethod
    def wait_for(what, condition, patience=PATIENCE):
        end = time.monotonic() + patience
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > end:
                print("FAILED: waited %.0f s in vain for %s" % (patience, what))
                sys.exit(1)
            time.sleep(0.05)

    @staticmethod
    def stop(process, patience=PATIENCE):
        """Asks a process to end, as an operator would; gives its exit code."""
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            print("FAILED: a process did not end within %.0f s of SIGTERM" % patience)
            sys.exit(1)


def found(pattern, text):
    m = re.search(pattern, text)
    return m.group(1) if m else None
