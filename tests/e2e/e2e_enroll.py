"""A host enrols with a token and sends; every refusal says what to do; a kill in the middle leaves a host that can go on."""

import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import time

from fleet import BIN, Fleet, check, ensure


class Lab(Fleet):
    def begin(self, **settings):
        self.start_collector(listen__enroll="127.0.0.1:%s" % self.ports.get("enroll", 0), pki__dir=self.path("pki"), **settings)
        return self

    def token(self, *more, pki="pki", name="token"):
        """A file with a new token."""
        _, out, _ = self.run("procfleet-collector", "pki", "token", "create", "--dir", self.path(pki), *more)
        path = self.path(name)
        with open(path, "w") as f:
            f.write(out)
        os.chmod(path, 0o600)
        return path

    def state(self, name):
        return self.path("agents", name)

    def args(self, name, **settings):
        """Settings as on a host: everything below its state directory."""
        conf = {"state_dir": self.state(name), "collector.addresses": "127.0.0.1:" + self.ports["ingest"],
                "collector.enroll_address": "127.0.0.1:" + self.ports["enroll"], "identity.name": name, "batch.max_age": "1s"}
        conf.update({k.replace("__", "."): v for k, v in settings.items()})
        return [a for k, v in conf.items() for a in ("--set", "%s=%s" % (k, v))]

    def enroll(self, name, token, *more, expect=0, **settings):
        return self.run("procfleet-agent", "enroll", "--token-file", token, *more, *self.args(name, **settings), expect=expect)

    def refused(self, what, code, words, name, token, *more, **settings):
        _, out, err = self.enroll(name, token, *more, expect=code, **settings)
        ensure("%s: exit code %d, and the text says why" % (what, code), re.search(words, err), err)
        check("%s: nothing on standard output" % what, out, "")

    def files(self, name):
        return sorted(os.listdir(os.path.join(self.state(name), "tls")))

    def told(self, name):
        with open(os.path.join(self.state(name), "status.json")) as f:
            return json.load(f)

    def certificate(self, name):
        with open(os.path.join(self.state(name), "tls", "agent.pem")) as f:
            return f.read()

    def findings(self, name):
        _, out, _ = self.run("procfleet-agent", "doctor", "--format", "json", *self.args(name), expect=None)
        return {f["check"]: f["state"] for f in json.loads(out)}


def first_enrolment(lab):
    token = lab.token("--name", "lab-*")
    _, out, err = lab.enroll("lab-1", token)
    ensure("what was written is told", re.search(r"(?m)^host +lab-1$", out) and "agent.pem" in out, out)
    ensure("and what comes next", "next: procfleet-agent run" in err, err)
    check("three files", lab.files("lab-1"), ["agent.key", "agent.pem", "ca.pem"])
    mode = stat.S_IMODE(os.stat(os.path.join(lab.state("lab-1"), "tls", "agent.key")).st_mode)
    check("only its owner reads the key", mode, 0o600)
    with open(lab.path("pki", "ca.pem")) as a, open(os.path.join(lab.state("lab-1"), "tls", "ca.pem")) as b:
        check("the authority is the right one", b.read(), a.read())
    agent = lab.start("procfleet-agent", "run", *lab.args("lab-1"), log="agent-lab-1.log")
    lab.wait_for("data of the enrolled host", lambda: "lab-1" in lab.hosts())
    ensure("the enrolled host sends", True)
    lab.refused("an agent runs", 1, "an agent runs with .*stop it first", "lab-1", token, "--force")
    check("the agent stops in good order", lab.stop(agent), 0)
    return token


def refusals(lab, used):
    lab.refused("enrolled already", 1, "enrolled already.*--force", "lab-1", used)
    lab.refused("a token that was used", 4, "used", "lab-2", used)
    lab.refused("a token for other names", 4, "(?i)name", "db-1", lab.token("--name", "lab-*"))
    short = lab.token("--life", "1s")
    time.sleep(1.2)
    lab.refused("a token that has expired", 4, "expired", "lab-2", short)
    token = lab.token()
    _, listed, _ = lab.run("procfleet-collector", "pki", "token", "list", "--dir", lab.path("pki"), "--format", "csv")
    with open(token) as f:
        text = f.read().strip()
    ensure("the list shows no secret", text not in listed and text[20:52] not in listed, listed)
    lab.run("procfleet-collector", "pki", "token", "withdraw", "--dir", lab.path("pki"), text[4:20])
    lab.refused("a token that was withdrawn", 4, "withdrawn", "lab-2", token)
    shutil.copytree(lab.path("pki"), lab.path("copy")) # the same authority, but a book that the collector does not read
    lab.refused("a token that nobody knows", 4, "(?i)unknown|no such token|not known", "lab-2", lab.token(pki="copy"))
    lab.run("procfleet-collector", "pki", "init", "--dir", lab.path("foreign"), "--name", "foreign authority")
    lab.refused("the collector of another authority", 4, "the token names the collector's authority", "lab-2", lab.token(pki="foreign"))
    lab.refused("nobody there", 3, "7423", "lab-2", lab.token(), "--collector", "127.0.0.1:1")
    with open(lab.path("garbage"), "w") as f:
        f.write(text[:60])
    lab.refused("half a token", 2, "not a token", "lab-2", lab.path("garbage"))
    lab.refused("a name that cannot be", 2, "cannot be a host's name", "lab-2", lab.token(), "--name", "a b")
    lab.refused("no token", 2, "token", "lab-2", lab.path("none"))
    ensure("nothing was written", not os.path.exists(os.path.join(lab.state("lab-2"), "tls", "agent.pem")))


def enrolled_anew(lab):
    before = lab.certificate("lab-1")
    _, out, _ = lab.enroll("lab-1", lab.token(), "--force", "--name", "lab-1b")
    ensure("another identity", lab.certificate("lab-1") != before and "lab-1b" in out, out)
    check("the old files are kept", lab.files("lab-1"),
          ["agent.key", "agent.key.old", "agent.pem", "agent.pem.old", "ca.pem", "ca.pem.old"])


def from_standard_input(lab):
    with open(lab.token()) as f:
        done = subprocess.run([os.path.join(BIN, "procfleet-agent"), "enroll", "--token-file", "-", *lab.args("lab-3")],
                              stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    check("a token from standard input", done.returncode, 0)


def killed(lab):
    """Whatever the moment: the host is enrolled, or can be with another token."""
    finished = lost = 0
    for i in range(12):
        name = "kill-%d" % i
        p = lab.start("procfleet-agent", "enroll", "--token-file", lab.token(name="token-%d" % i), *lab.args(name), log="killed.log")
        time.sleep(random.random() * 0.35)
        p.send_signal(signal.SIGKILL)
        p.wait()
        code, _, err = lab.enroll(name, lab.token(), expect=None)
        if code == 1 and "enrolled already" in err:
            finished += 1
        elif code == 4 and "--replace %s" % name in err: # the certificate was made, and never arrived
            lost += 1
            lab.enroll(name, lab.token("--replace", name))
        elif code != 0:
            check("enrolment after a kill: %s" % err, code, 0)
        found = lab.findings(name)
        if found["tls.certificate"] != "ok" or found["tls.key"] != "ok":
            check("what a kill has left", found, None)
        left = [f for f in lab.files(name) if f.endswith((".new", ".try", ".tmp"))]
        check("nothing is left over (%s)" % name, left, [])
    print("ok: killed 12 times, %d had got through, %d certificates were lost on their way" % (finished, lost))


def revoked(lab):
    """A running agent is turned away, says so, keeps what it sees, and comes back with a new token."""
    agent = lab.start("procfleet-agent", "run", *lab.args("lab-3"), log="agent-lab-3.log")
    host = lab.wait_for("data of lab-3", lambda: lab.hosts().get("lab-3"))
    lab.run("procfleet-collector", "pki", "revoke", "--dir", lab.path("pki"), "lab-3", "--reason", "stolen")
    lab.wait_for("the agent to be refused", lambda: "uplink refused" in lab.log("agent-lab-3.log"))
    lab.wait_for("it shows revoked, not silent", lambda: lab.hosts()["lab-3"]["state"] == "revoked")
    told = lab.wait_for("the status to say so", lambda: lab.told("lab-3")["uplink"]["state"] == "refused" and lab.told("lab-3"))
    ensure("and why", "revoked" in told["uplink"]["why"] and "enroll --force" in told["uplink"]["why"], told["uplink"])
    code, out, _ = lab.run("procfleet-agent", "doctor", *lab.args("lab-3"), expect=None)
    ensure("doctor: only the collector refuses", code == 4, out)
    held = lab.told("lab-3")["queue"]["held"]
    lab.wait_for("the spool to grow", lambda: lab.told("lab-3")["queue"]["held"] > held)
    check("the refused agent stops in good order", lab.stop(agent), 0)
    lab.enroll("lab-3", lab.token("--replace", "lab-3"), "--force")
    agent = lab.start("procfleet-agent", "run", *lab.args("lab-3"), log="agent-lab-3.log")
    lab.wait_for("what waited to arrive", lambda: lab.hosts()["lab-3"]["batches"] > host["batches"] + held)
    lab.wait_for("no gap", lambda: lab.hosts()["lab-3"]["gaps"] == 0) # what is new does not wait behind it
    check("it is the same host", (lab.hosts()["lab-3"]["id"], lab.hosts()["lab-3"]["state"]), (host["id"], "connected"))
    check("it stops in good order", lab.stop(agent), 0)


with Lab() as lab:
    lab.begin()
    used = first_enrolment(lab)
    refusals(lab, used)
    enrolled_anew(lab)
    from_standard_input(lab)
    revoked(lab)
    killed(lab)
