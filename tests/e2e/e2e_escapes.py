"""Nothing that a stranger, a peer or a typing error puts into an argument, a file's name or a name in a certificate steers the terminal:
what the programs print of it, on standard output and standard error, has escapes."""

import os
import re
import subprocess
import sys

from fleet import BIN, Fleet, check, corpus, ensure

# As strangers choose them: control characters, C1, bidirectional marks, what is drawn as nothing, tags, no UTF-8.
EVIL = b"\x1b[2J\x1b]0;t\x07\xc2\x9b31m\x7f" + "\u202e\u2066\u200b\u00ad\U000e0041\u3164\ufe0f".encode() + b"z" + "\u0301".encode() * 8 + b"\x9b\xff\r\n\tx"
BAD = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
                 "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]|[\u0300-\u036f]{5}")
failures = []
asked = 0
room = None  # where they run: some write files


def look(what, out):
    try:
        text = out.decode()
    except UnicodeDecodeError as e:
        failures.append("%s: no UTF-8: %s" % (what, e))
        return
    found = BAD.search(text.replace("\r\n", "\n"))
    if found:
        failures.append("%s: U+%04X in %r" % (what, ord(found.group()[0]), text[max(0, found.start() - 60):found.end() + 20]))


def run(*args, expect=None, say=True, **more):
    """Runs a program with bytes as arguments; everything it says is looked at."""
    global asked
    asked += 1
    words = [os.fsencode(a) if isinstance(a, str) else a for a in args]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_")}
    done = subprocess.run([os.fsencode(os.path.join(os.path.abspath(BIN), "x"))[:-1] + words[0]] + words[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(env, **more), timeout=60, check=False, cwd=room)
    what = " ".join(a if isinstance(a, str) else "EVIL" for a in args)
    look(what, done.stdout)
    look(what, done.stderr)
    if say and done.returncode != 0 and not done.stderr + done.stdout:
        failures.append("%s: exit code %d without a word" % (what, done.returncode))
    if expect is not None and done.returncode != expect:
        failures.append("%s: exit code %d instead of %d: %r" % (what, done.returncode, expect, done.stderr))
    return done


def page(*path):
    return run(*path, "--help").stdout.decode()


def commands():
    """All commands of the three programs with their options that take a value."""
    found, todo = [], [["procfleet"], ["procfleet-agent"], ["procfleet-collector"]]
    while todo:
        path = todo.pop(0)
        text = page(*path)
        subs = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
        todo += [path + [w] for w in (re.findall(r"^  (\S+) ", subs.group(1), re.M) if subs else [])]
        found.append((path, re.findall(r"^  (?:-\w, |    )--(\S+) \S", text, re.M)))
    return found


def every_argument():
    """As a command, an operand, an option's name and an option's value."""
    for path, options in commands():
        run(*path, EVIL)
        run(*path, b"--" + EVIL)
        run(*path, b"-" + EVIL[:1])
        if path[1:]:
            run(*path[:-1] + [os.fsencode(path[-1]) + EVIL])
        for option in options:
            short = ["--for", "100ms"] if "for" in options and option != "for" else []
            run(*path, *short, b"--" + option.encode() + b"=" + EVIL, say=False)
    run("procfleet", "help", EVIL)
    run("procfleet", "man", EVIL)
    run("procfleet-agent", "completion", EVIL)


def files():
    """Names of files and directories, those that are there and those that are not."""
    evil = os.path.join(os.fsencode(room), b"of " + EVIL)
    os.mkdir(evil)
    run("procfleet-collector", "pki", "init", "--dir", os.path.join(evil, b"pki"), expect=0)
    issue = ("procfleet-collector", "pki", "issue", "--dir", os.path.join(evil, b"pki"), "--role")
    run(*issue, "query", "--name", "ann", "--out", os.path.join(evil, b"out"), expect=0)
    run(*issue, "query", "--name", EVIL, "--out", evil, expect=2)
    run(*issue, "query", "--name", "bob", "--out", os.path.join(evil, b"none", b"x"))
    run("procfleet-collector", "pki", "list", "--dir", os.path.join(evil, b"pki"), expect=0)
    run("procfleet-collector", "pki", "list", "--dir", evil)
    run("procfleet-collector", "pki", "token", "create", "--dir", os.path.join(evil, b"pki"), "--name", EVIL[:10])
    run("procfleet-collector", "pki", "token", "create", "--dir", os.path.join(evil, b"pki"), "--replace", "web-1", expect=0)
    run("procfleet-collector", "pki", "token", "list", "--dir", os.path.join(evil, b"pki"), expect=0)
    run("procfleet-collector", "pki", "token", "withdraw", "--dir", os.path.join(evil, b"pki"), EVIL)
    run("procfleet-collector", "pki", "revoke", "--dir", os.path.join(evil, b"pki"), EVIL)
    run("procfleet-collector", "pki", "revoke", "--dir", os.path.join(evil, b"pki"), "ann", "--reason", EVIL[:20])
    run("procfleet-collector", "pki", "list", "--all", "--dir", os.path.join(evil, b"pki"), expect=0)
    run("procfleet-collector", "run", "--config", os.path.join(evil, b"none.yaml"), expect=2)
    run("procfleet-collector", "run", "--set", b"data_dir=" + evil)
    run("procfleet-collector", "doctor", "--set", b"data_dir=" + evil)
    for verb in ("stats", "check", "export"):
        run("procfleet-collector", "store", verb, "--set", b"data_dir=" + evil)
    for name, text in ((b"bad.yaml", EVIL), (b"key.yaml", b"\"" + EVIL[1:3] + b"\\u202e\\u001b\": 1\n"), (b"value.yaml", b"log.level: \"\\e[2J\\u202e\"\n")):
        with open(os.path.join(evil, name), "wb") as f:
            f.write(text)
        run("procfleet-collector", "run", "--config", os.path.join(evil, name), expect=2)
        run("procfleet-agent", "run", "--config", os.path.join(evil, name), expect=2)
        run("procfleet", "hosts", "--config", os.path.join(evil, name), expect=2)
        run("procfleet", "config", "show", "--config", os.path.join(evil, name), expect=2)
    with open(os.path.join(evil, b"good.yaml"), "wb") as f:
        f.write(b"default_profile: \"a\\u202e\\e[2J\"\nprofiles:\n  \"a\\u202e\\e[2J\": {collector: \"c\\u200b\\e[2J\", ca: a, cert: b, key: c}\n")
    run("procfleet", "config", "show", "--config", os.path.join(evil, b"good.yaml"))
    run("procfleet", "hosts", "--config", os.path.join(evil, b"good.yaml"))
    state = b"state_dir=" + evil
    for args in (["run"], ["doctor"], ["status"], ["spool", "list"], ["spool", "show", "3"], ["spool", "retry", "all"], ["enroll", "--token", EVIL],
                 ["enroll", "--token-file", evil + b"none"], ["replay", evil + b"none.etl"], ["show-wire", evil + b"none.etl"], ["watch", "--pid", EVIL]):
        run("procfleet-agent", *args, "--set", state, "--set", b"collector.addresses=127.0.0.1:1", "--set", b"identity.name=" + EVIL[:8])
    recording = os.path.join(evil, b"r.etl.xz")
    with open(corpus("public/net.4.5.x86-win7.etl.xz"), "rb") as f, open(recording, "wb") as to:
        to.write(f.read())
    for verb in ("info", "summary", "processes", "threads", "top", "events"):
        for form in ("table", "json", "jsonl"):  # CSV for programs is exact
            limit = ["--limit", "3"] if verb in ("processes", "top", "events") else []
            run("procfleet-agent", "etl", verb, recording, recording, "--format", form, *limit)
        run("procfleet-agent", "etl", verb, evil)
        run("procfleet-agent", "etl", verb, evil + b"none")


def main():
    global room
    with Fleet() as fleet:
        room = fleet.dir
        every_argument()
        files()
    for f in sorted(set(failures)):
        print("FAILED: " + f)
    print("%d command lines" % asked)
    ensure("there are many commands", asked > 300, asked)
    check("nothing steers a terminal", len(failures), 0)


if __name__ == "__main__":
    sys.exit(main())
