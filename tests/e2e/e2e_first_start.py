"""The first start as docs/operating.md has it, as the services' users, and what a start as root by mistake leaves: it is refused
where it would spoil something, and what was left is found, by both programs and their doctors, with the way out."""

import json
import os
import pwd
import shutil
import subprocess
import sys

from fleet import BIN, Fleet, check, ensure, skip

if os.geteuid() != 0:
    skip("another user's files need root")
USER = pwd.getpwnam("nobody")
AS_USER = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []}


def run(program, *args, root=False, expect=0, stdin=subprocess.DEVNULL, cwd="/"):
    done = subprocess.run([os.path.join(os.path.abspath(BIN), program), *args], stdin=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, cwd=cwd, **({} if root else AS_USER))
    said = done.stdout.decode() + done.stderr.decode()
    ensure("%s %s gives %d" % (program, args[0], expect), done.returncode == expect, "%d %s" % (done.returncode, said))
    return said


def owners(top):
    return {os.stat(os.path.join(folder, name)).st_uid for folder, folders, files in os.walk(top) for name in folders + files}


def mistake(top, name):
    """What root's program leaves in a directory."""
    os.mkdir(os.path.join(top, name), 0o700)
    with open(os.open(os.path.join(top, name, "file"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write("x")


def way_out(program, check_name, *args):
    """Both the user's doctor and root's name it; what they advise is done."""
    for root in (False, True):
        done = subprocess.run([os.path.join(os.path.abspath(BIN), program), "doctor", *args, "--format", "json"], cwd="/",
                              stdout=subprocess.PIPE, timeout=60, **({} if root else AS_USER))
        found = {f["check"]: f for f in json.loads(done.stdout)}
        check("the doctor of %s finds it (root: %s)" % (program, root), found[check_name]["state"], "failed")
    _, _, fix = found[check_name]["fix"].partition("as root: ")
    ensure("and says the way out", fix.startswith("chown -R nobody: "), fix)
    subprocess.run(fix.split(), check=True)


with Fleet() as fleet:
    os.chmod(fleet.dir, 0o755)
    state, host = fleet.path("procfleet-collector"), fleet.path("procfleet-agent")
    for top in (state, host):
        os.mkdir(top, 0o750)
        os.chown(top, USER.pw_uid, USER.pw_gid)
    pki, tls = state + "/pki", state + "/tls"
    if subprocess.run([os.path.join(os.path.abspath(BIN), "procfleet"), "--version"], cwd="/", stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False, **AS_USER).returncode:
        skip("nobody may not start the programs where they are")

    ensure("root makes no authority for somebody else", "runuser -u nobody --" in run("procfleet-collector", "pki", "init", "--dir", pki,
                                                                                      root=True, expect=1))
    check("and leaves nothing", os.listdir(state), [])
    run("procfleet-collector", "pki", "init", "--dir", pki)
    run("procfleet-collector", "pki", "issue", "--dir", pki, "--role", "collector", "--name", "collector", "--dns", "localhost", "--out", tls)
    people = fleet.path("people")
    os.mkdir(people, 0o700)
    said = run("procfleet-collector", "pki", "issue", "--dir", pki, "--role", "query", "--name", "alice", "--out", "alice", expect=1, cwd=fleet.dir)
    ensure("where that user may not write, --output is what helps", "--output" in said, said)
    run("procfleet-collector", "pki", "issue", "--dir", pki, "--role", "query", "--name", "alice", "--out", "alice", root=True, cwd=people)
    check("root's use of the book leaves it to its user", owners(state), {USER.pw_uid})

    args = ["--set", "data_dir=" + state, "--set", "tls.ca=%s/ca.pem" % tls, "--set", "tls.cert=%s/collector.pem" % tls,
            "--set", "tls.key=%s/collector.key" % tls, "--set", "pki.dir=" + pki]
    ports = state + "/ports"
    for name in ("ingest", "query", "events", "enroll", "http"):
        args += ["--set", "listen.%s=127.0.0.1:0" % name]
    ensure("root's start is refused", "runuser -u nobody --" in run("procfleet-collector", "run", *args, root=True, expect=1))
    check("and leaves nothing either", (sorted(os.listdir(state)), owners(state)), (["pki", "tls"], {USER.pw_uid}))
    mistake(state, "lost+found")  # of a file system of its own: nobody's mistake
    mistake(state, "wal")  # of a version that did start
    said = run("procfleet-collector", "run", *args, expect=1)
    ensure("what root left is named with the remedy", "chown -R nobody: " + state in said and state + "/wal" in said, said)
    way_out("procfleet-collector", "data.owner", *args)
    os.chown(state + "/lost+found", 0, 0)
    os.chown(state + "/lost+found/file", 0, 0)
    os.remove(state + "/wal/file")
    with open(fleet.path("c.log"), "wb") as log:
        collector = subprocess.Popen([os.path.join(os.path.abspath(BIN), "procfleet-collector"), "run", "--ports-file", ports, *args],
                                     cwd="/", stdout=log, stderr=log, **AS_USER)
    fleet.processes.append(collector)
    fleet.wait_for("the service to start after that", lambda: os.path.exists(ports) or collector.poll() is not None)
    ensure("it runs", collector.poll() is None, fleet.log("c.log"))
    at = dict(line.strip().split("=") for line in open(ports))

    token = fleet.path("token")
    with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write(subprocess.run([os.path.join(os.path.abspath(BIN), "procfleet-collector"), "pki", "token", "create", "--dir", pki],
                               stdout=subprocess.PIPE, check=True).stdout.decode())
    agent = ["--set", "state_dir=" + host, "--set", "identity.name=one", "--set", "collector.addresses=127.0.0.1:" + at["ingest"]]
    enroll = ["enroll", "--collector", "127.0.0.1:" + at["enroll"], *agent, "--token-file"]
    ensure("root enrols nobody else's agent", "runuser -u nobody --" in run("procfleet-agent", *enroll, token, root=True, expect=1))
    said = run("procfleet-agent", *enroll, token, expect=2)
    ensure("a token that only root can read is handed over", "--token-file - < " + token in said, said)
    with open(token) as f:
        run("procfleet-agent", *enroll, "-", stdin=f)
    mistake(host, "spool")
    said = run("procfleet-agent", "run", *agent, expect=1)
    ensure("the agent names what root left", "chown -R nobody: " + host in said and host + "/spool" in said, said)
    way_out("procfleet-agent", "state.owner", *agent)
    os.remove(host + "/spool/file")
    with open(fleet.path("a.log"), "wb") as log:
        running = subprocess.Popen([os.path.join(os.path.abspath(BIN), "procfleet-agent"), "run", *agent, "--set", "batch.max_age=200ms"],
                                   cwd="/", stdout=log, stderr=log, **AS_USER)
    fleet.processes.append(running)
    alice = {"ca": people + "/alice/ca.pem", "cert": people + "/alice/alice.pem", "key": people + "/alice/alice.key"}
    hosts = lambda: fleet.run("procfleet", "hosts", "--collector", "127.0.0.1:" + at["query"], "--ca", alice["ca"],  # noqa: E731
                              "--cert", alice["cert"], "--key", alice["key"], "--format", "json", expect=None)[1]
    fleet.wait_for("its data", lambda: '"one"' in hosts())
    check("it ends well", fleet.stop(running), 0)
    check("so does the collector", fleet.stop(collector), 0)
    shutil.rmtree(state + "/lost+found")
    check("all of it is still the user's", owners(state) | owners(host), {USER.pw_uid})
sys.exit(0)
