"""Every command of the programs: --help, the manual and what bash and zsh complete say the same, and a wrong word on the
command line ends with exit code 2 and a sentence that names it. The tables are known here only by what --help prints."""

import concurrent.futures
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

BIN = os.environ["PROCFLEET_BIN"]
EXE = ".exe" if os.path.exists(os.path.join(BIN, "procfleet.exe")) else ""
PROGRAMS = [p for p in ("procfleet", "procfleet-collector", "procfleet-agent", "procfleet-etl", "procfleet-forward", "procfleet-notify") if os.path.exists(os.path.join(BIN, p + EXE))]
LIMIT = 120  # seconds that anything may take on a busy machine
KINDS = {"FILE", "DIR", "HOST", "HOST[:PORT]", "COMMAND", "KEY=VALUE"}
BAD = {"N": "x7", "PID": "-1", "TID": "x", "MS": "soon", "FACTOR": "fast", "SPAN": "soon", "TIME": "yesterday"}
failures = []


def run(*args, expect=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_")}
    r = subprocess.run([os.path.join(BIN, args[0] + EXE)] + list(args[1:]), stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, encoding="utf-8", env=env, timeout=LIMIT)
    if expect is not None and r.returncode != expect:
        failures.append("%s: exit code %d instead of %d: %s" % (" ".join(args), r.returncode, expect, r.stderr.strip()))
    return r.returncode, r.stdout, r.stderr


def check(what, got, wanted):
    if got != wanted:
        failures.append("%s: %r instead of %r" % (what, got, wanted))


class Option:
    def __init__(self, letter, name, value, text):
        self.letter, self.name, self.value, self.text = letter, name, value, text

    def key(self):
        return (self.letter, self.name, self.value, " ".join(self.text.split()))


class Command:
    """What --help tells: of a command of commands their names, else options, operands and sets of words."""

    def __init__(self, path):
        self.path = path
        page = run(*path, "--help", expect=0)[1]
        call, self.brief = page.split("\n", 1)[0].split(": ", 1)
        self.elsewhere = call.split()[0] in PROGRAMS and path[0] != call.split()[0]  # another program does it, and is asked here, too
        self.subs, self.options, self.sets, self.operands = [], [], {}, ""
        usage = re.search(r"^Usage: %s(?: \[OPTION\]\.\.\.)? ?(.*)$" % re.escape(" ".join(path)), page, re.M)
        if usage and "Options:" in page:
            self.operands = usage.group(1)
        for title, body in re.findall(r"^(Commands|Options|[A-Z=]+ is one of):\n((?:  .*\n)+)", page, re.M):
            if title == "Commands":
                self.subs = re.findall(r"^  (\S+) ", body, re.M)
            elif title == "Options":
                self.read_options(body)
            else:
                self.sets[title.split()[0]] = [w for w in re.split(r"[,\s]+", body) if w]

    def read_options(self, body):
        for line in body.splitlines():
            m = re.match(r"  (?:-(\w), |    )--(\S+)(?: (\S+))?(?:  +(.*))?$", line)
            if m and not line.startswith(" " * 28):
                self.options.append(Option(m.group(1) or "", m.group(2), m.group(3) or "", m.group(4) or ""))
            else:
                self.options[-1].text += " " + line.strip()

    def words(self, value):
        """The words that an option's value is one of, and what else it may be."""
        words, others = [], []
        bare = re.sub(r",?\.\.\.$", "", value[1:-1] if value.startswith("[") and value.endswith("]") else value)
        for part in bare.split("|") if bare else []:
            if part in self.sets:
                words += self.sets[part]
            elif re.search("[a-z0-9]", part):
                words.append(part)
            else:
                others.append(part)
        return words, others


def commands():
    """All commands, parents before children."""
    found, todo = [], [[p] for p in PROGRAMS]
    while todo:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            level = [c for c in pool.map(Command, todo) if not c.elsewhere]
        found += level
        todo = [c.path + [s] for c in level for s in c.subs]
    return found


def one_meaning(all_commands):
    """A letter is one option in all programs, and what is asked for by a name has that letter wherever it has one."""
    letters, names = {}, {}
    for c in all_commands:
        for o in c.options:
            if o.letter and o.name != "help":
                letters.setdefault(o.letter, {}).setdefault(o.name, []).append(" ".join(c.path))
                names.setdefault(o.name, set()).add(o.letter)
    for letter, meanings in sorted(letters.items()):
        if len(meanings) > 1:
            failures.append("-%s has %d meanings: %s" % (letter, len(meanings), meanings))
    for c in all_commands:
        for o in c.options:
            if not o.letter and o.name in names and not any(p.letter in names[o.name] for p in c.options):
                failures.append("%s: --%s has no letter, elsewhere it is -%s" % (" ".join(c.path), o.name, "".join(names[o.name])))


# ---- the manual ----

def plain(roff):
    for escape, text in (("\\(aq", "'"), ("\\(ti", "~"), ("\\(ha", "^"), ("\\&", ""), ("\\-", "-"), ("\\ ", " "), ("\\e", "\\")):
        roff = roff.replace(escape, text)
    return re.sub(r"\\\[u([0-9A-F]+)\]", lambda m: chr(int(m.group(1), 16)), roff)


def manual_options(page):
    """{command words: options} of a page."""
    parts, at = {}, ""
    for line in page.splitlines():
        if line.startswith(".Ss "):
            at = plain(line[4:])
        elif line.startswith((".Sh ENV", ".Sh FILES", ".Sh EXIT")):
            break
        elif line.startswith(".It Fl "):
            m = re.match(r"(?:(\w) , Fl )?-(\S+)(?: Ar (.*))?$", plain(line[7:]))
            parts.setdefault(at, []).append(Option(m.group(1) or "", m.group(2), m.group(3) or "", ""))
        elif line.startswith("."):
            if parts.get(at) and line == ".El":
                at += "\0"  # what follows is no text of the last option
        elif parts.get(at):
            parts[at][-1].text += " " + plain(line)
    return {k.rstrip("\0"): v for k, v in parts.items() if v}


def manual(all_commands, pages):
    for c in (c for c in all_commands if len(c.path) > 1 and c.options):
        with open(os.path.join(pages, "%s-%s.1" % (c.path[0], c.path[1])), encoding="ascii") as f:
            parts = manual_options(f.read())
        mine = parts.get(" ".join(c.path[1:]) if len(c.path) > 2 else "", [])
        check("manual of " + " ".join(c.path), [o.key() for o in mine], [o.key() for o in c.options])
    for c in all_commands:
        name = "-".join(c.path[:2]) + ".1"
        if len(c.path) <= 2 and not os.path.exists(os.path.join(pages, name)):
            failures.append("there is no page " + name)


def rendered(pages):
    files = sorted(os.path.join(pages, f) for f in os.listdir(pages))
    for tool in (["mandoc", "-T", "lint", "-W", "warning"], ["man", "--warnings", "-l"]):
        if not shutil.which(tool[0]):
            print("skipped: %s is not installed" % tool[0])
            continue
        if tool[0] == "man" and not shutil.which("groff") and not shutil.which("nroff"):
            print("skipped: groff is not installed")
            continue
        r = subprocess.run(tool + files, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=dict(os.environ, LC_ALL="C.UTF-8", MANPAGER="cat", MANWIDTH="100"), timeout=LIMIT)
        said = r.stdout + r.stderr if tool[0] == "mandoc" else r.stderr
        # Pages of the programs beside this one are there once they are installed.
        said = "\n".join(line for line in said.splitlines() if "referenced manual not found" not in line)
        check("%s of %d pages" % (tool[0], len(files)), said, "")


# ---- completion ----

def questions(c):
    """[(words before the cursor, what has to be offered)]"""
    asked = []
    if c.subs:
        asked.append((c.path + [""], c.subs))
        if not c.options:
            return asked
    if c.path[1:] == ["man"]:
        asked.append((c.path + ["--"], ["--dir", "--help"]))
        return asked
    asked.append((c.path + ["--"], ["--" + o.name for o in c.options]))
    words, others = c.words(c.operands)
    if words and not others:
        asked.append((c.path + [""], words))
    for o in c.options:
        words, others = c.words(o.value)
        if words and not set(others) & KINDS:
            asked.append((c.path + ["--" + o.name, ""], words))
            if o.letter:
                asked.append((c.path + ["-" + o.letter, ""], words))
    return asked


BASH = r"""
source "$1"
while IFS=$'\x1f' read -r -a COMP_WORDS; do
    COMP_WORDS=("${COMP_WORDS[@]:1}")
    COMP_WORDS[-1]=${COMP_WORDS[-1]%$'\x1e'}
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    "_${COMP_WORDS[0]//-/_}" 2>&1
    printf '%s\x1f' "${COMPREPLY[@]}"
    printf '\n'
done
"""


def bash(script, asked):
    lines = "".join("\x1f" + "\x1f".join(words) + "\x1e\n" for words in asked)
    r = subprocess.run(["bash", "--norc", "-c", BASH, "bash", script], input=lines, capture_output=True, text=True, timeout=LIMIT)
    check("bash", r.stderr, "")
    check("bash answers every question", len(r.stdout.splitlines()), len(asked))
    return [[w for w in line.split("\x1f") if w] for line in r.stdout.splitlines()]


# Its compadd writes down what it would offer, and nothing is inserted or listed.
ZSH = r"""
PROMPT=; RPROMPT=; unsetopt zle_bracketed_paste 2>/dev/null; zstyle ':completion:*' menu no
autoload -Uz compinit && compinit -u -D; bindkey -e; bindkey '^I' complete-word
setopt no_list_beep no_beep no_auto_list no_list_ambiguous
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits; builtin compadd -A hits "$@"; local code=$?
    (( $#hits )) && print -rl -- $hits >>$OUT
    builtin compadd "$@"; return code
}
end_of_it() { print -r -- '=end=' >>$OUT; compstate[insert]=; compstate[list]=; comppostfuncs=(end_of_it); }
comppostfuncs=(end_of_it)
"""


class Zsh:
    """A real one on a terminal."""

    def __init__(self, room, script):
        self.out = os.path.join(room, "zsh.out")
        self.seen = 0
        setup = os.path.join(room, "setup.zsh")
        with open(setup, "w", encoding="utf-8") as f:
            f.write("OUT=%s\n%s\n" % (self.out, ZSH))
            f.write("source %s\nprint -r -- '=end=' >>$OUT\n" % script)
        open(self.out, "w", encoding="utf-8").close()
        env = dict(os.environ, TERM="dumb", HOME=room, ZDOTDIR=room)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], env)
        self.send("source %s\n" % setup)
        self.wait("zsh to begin")

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, what):
        end = time.monotonic() + LIMIT
        screen = b""
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.02)[0]:
                screen += os.read(self.fd, 65536)
            with open(self.out, encoding="utf-8") as f:
                f.seek(self.seen)
                text = f.read()
            if "=end=\n" in text:
                self.seen += len(text.encode())
                return [line for line in text.splitlines() if line and line != "=end="]
        sys.exit("waited in vain for %s: %r" % (what, screen[-2000:]))

    def ask(self, words):
        self.send("\x15" + " ".join(words) + "\t")
        return self.wait(" ".join(words))

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def completion(all_commands, room):
    for program in PROGRAMS:
        asked = [q for c in all_commands if c.path[0] == program for q in questions(c)]
        asked += [([program, "man", ""], next(c.subs for c in all_commands if c.path == [program]))]
        script = os.path.join(room, program + ".bash")
        with open(script, "w", encoding="utf-8") as f:
            f.write(run(program, "completion", expect=0)[1])
        for (words, wanted), got in zip(asked, bash(script, [w for w, _ in asked])):
            check("bash: " + " ".join(words), sorted(set(got)), sorted(wanted))
        print("ok: %s: bash offers what the tables hold, %d questions" % (program, len(asked)))
        if not shutil.which("zsh"):
            print("skipped: zsh is not installed")
            continue
        script = os.path.join(room, program + ".zsh")
        with open(script, "w", encoding="utf-8") as f:
            f.write(run(program, "completion", "zsh", expect=0)[1])
        zsh = Zsh(room, script)
        for words, wanted in asked:
            check("zsh: " + " ".join(words), sorted(w for w in set(zsh.ask(words)) if w not in ("-h",)), sorted(wanted))
        zsh.close()
        print("ok: %s: zsh likewise" % program)


def by_hand(room):
    """What the walk over the tables does not ask: words cut at =, lists with commas, settings."""
    script = os.path.join(room, "procfleet.bash")
    asked = [(["procfleet", "top", "--by", "=", "cpu_t"], ["cpu_time"]), (["procfleet", "top", "--by=cpu_t"], ["--by=cpu_time"]),
             (["procfleet", "top", "--limit", "3", "--as", "us"], ["usual"]),
             (["procfleet", "events", "--kind", "process,lev"], ["process,level"]), (["procfleet", "to"], ["top"])]
    for (words, wanted), got in zip(asked, bash(script, [w for w, _ in asked])):
        check("bash: " + " ".join(words), got, wanted)
    script = os.path.join(room, "both.bash")
    with open(script, "w", encoding="utf-8") as f:
        f.write(run("procfleet-agent", "completion", expect=0)[1] + run("procfleet-etl", "completion", expect=0)[1])
    asked = [(["procfleet-agent", "etl", "summ"], ["summary"]), (["procfleet-agent", "etl", "top", "--by", "disk_ti"], ["disk_time"])]
    for (words, wanted), got in zip(asked, bash(script, [w for w, _ in asked])):
        check("bash: " + " ".join(words), got, wanted)
    script = os.path.join(room, "procfleet-agent.bash")
    asked = [(["procfleet-agent", "run", "--set", "batch.max_a"], ["batch.max_age="]),
             (["procfleet-agent", "spool", "retry", "a"], ["all"])]
    for (words, wanted), got in zip(asked, bash(script, [w for w, _ in asked])):
        check("bash: " + " ".join(words), got, wanted)


# ---- former spellings ----

# Accepted until 0.3.0, shown nowhere.
FORMER = (["procfleet-collector pki issue", "-n", "--days"], ["procfleet-collector pki init", "-n"], ["procfleet-collector pki token create", "-n"],
          ["procfleet-collector pki revoke", "-r"], ["procfleet-collector pki list", "-e"], ["procfleet-collector store export", "-H", "-S", "-U", "-t"],
          ["procfleet-collector store stats", "-H"], ["procfleet-collector store check", "-r"], ["procfleet-agent enroll", "-n", "-t"],
          ["procfleet-agent replay", "-n"], ["procfleet-agent watch", "-i"], ["procfleet tail", "-s"])


def former():
    for command, *spellings in FORMER:
        path = command.split()
        if path[0] not in PROGRAMS:
            continue
        page = run(*path, "--help", expect=0)[1]
        for word in spellings:
            if re.search(r"[ ,]%s[ ,]" % re.escape(word), page.split("Examples:")[0]):
                failures.append("%s --help shows %s" % (command, word))
            err = run(*path, word, "5", "--nonsense", expect=2)[2]
            if "unknown option " + word in err or not re.search("--nonsense|'5'", err):
                failures.append("%s: %s is not accepted: %s" % (command, word, err.strip()))
    print("ok: former spellings are accepted and shown nowhere")


# ---- wrong words ----

def wrong(all_commands):
    """[(arguments, what the sentence has to name)]"""
    asked, seen = [], set()
    for c in all_commands:
        if c.subs:
            asked += [(c.path + ["nonsense"], ["nonsense"]), (c.path + [c.subs[0][:-1] + "x"], ["did you mean"])]
            asked += [] if c.options else [(c.path, [])]  # one that has options does something alone
            continue
        asked.append((c.path + ["--nonsense"], ["--nonsense"]))
        for o in c.options:
            shared = (c.path[0],) + o.key()
            if not o.value or shared in seen:
                continue  # one row of a table that commands share
            seen.add(shared)
            asked.append((c.path + ["--" + o.name], ["--" + o.name]))
            words, others = c.words(o.value)
            if others and not set(others) <= set(BAD):
                continue
            bad = next((BAD[k] for k in others), "nonsense")
            asked.append((c.path + ["--%s=%s" % (o.name, bad)], ["--" + o.name, bad]))
            if words and not others and len(words[0]) > 4:
                asked.append((c.path + ["--" + o.name, words[0][:-1]], ["--" + o.name, "did you mean '"]))
    return asked


def refusals(all_commands):
    asked = wrong(all_commands)

    def one(question):
        args, names = question
        _, out, err = run(*args, expect=2)
        check("%s: nothing on standard output" % " ".join(args), out, "")
        for name in names or ["Usage"]:
            if name not in err:
                failures.append("%s: %r is not in %r" % (" ".join(args), name, err))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(one, asked))
    print("ok: %d wrong command lines are refused by name" % len(asked))


def written(all_commands):
    """What standard output does not take is an error, and "help COMMAND" is the page of "COMMAND --help"."""
    pages = [p + w for p in ([x] for x in PROGRAMS) for w in (["--help"], ["man"], ["completion"], ["version"])]
    pages += [[p, "config-sample"] for p in PROGRAMS if p in ("procfleet-agent", "procfleet-collector", "procfleet-forward", "procfleet-notify")]
    for page in pages if os.path.exists("/dev/full") else []:
        with open("/dev/full", "w") as full:
            r = subprocess.run([os.path.join(BIN, page[0])] + page[1:], stdin=subprocess.DEVNULL, stdout=full,
                               stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        check("%s: a full disk" % " ".join(page), (r.returncode, "cannot write" in r.stderr), (1, True))
    for c in all_commands:
        check("help %s" % " ".join(c.path), run(c.path[0], "help", *c.path[1:], expect=0)[1], run(*c.path, "--help")[1])
    for c in all_commands:
        lines = len(run(*c.path, "--help")[1].split("\nMETRIC is one of")[0].splitlines())
        if lines > 80 and c.path[1:] not in (["run"], ["otlp"]):
            failures.append("%s --help has %d lines: settings belong to run --help and config-sample" % (" ".join(c.path), lines))
    print("ok: %d pages tell of a full disk; help COMMAND is COMMAND --help" % len(pages))


def settings(room):
    """What a collector that cannot start says: the setting, the cause and what to do; 2 for what stays wrong, 1 for what may mend itself."""
    pki, data = os.path.join(room, "pki"), os.path.join(room, "data")
    program = "procfleet-collector"
    run(program, "pki", "init", "--dir", pki, expect=0)
    run(program, "pki", "issue", "--dir", pki, "--role", "collector", "--name", "c", "--out", data, expect=0)
    sound = ["data_dir=" + data, "tls.ca=" + data + "/ca.pem", "tls.cert=" + data + "/c.pem", "tls.key=" + data + "/c.key"]
    sound += ["listen.%s=127.0.0.1:0" % name for name in ("ingest", "query", "events", "enroll", "http")]
    cases = (
        (2, ["listen.http=localhost"], ["listen.http: 'localhost' is no address", "host:port"]),
        (2, ["listen.events=127.0.0.1:99999"], ["listen.events: '127.0.0.1:99999' is no address"]),
        (1, ["listen.http=192.0.2.77:80"], ["listen.http: cannot listen on 192.0.2.77:80", "no such address"]),
        (1, ["listen.query=192.0.2.77:80"], ["listen.query: cannot listen on 192.0.2.77:80", "no such address"]),
        (1, ["tls.crl=" + room + "/none"], ["revocation list", "not found; make", "tls.crl"]),
        (1, ["tls.ca=" + room], ["cannot read " + room + ": it is a directory"]),
        (1, ["tls.ca=" + room + "/" + 300 * "x"], ["xxx: not found"]),
        (1, ["tls.crl=" + room], ["revocation list " + room + ": it is a directory"]),
        (1, ["log.file=" + room + "/none/log"], ["log.file: cannot open", "its directory must be there"]),
    )
    for code, wrong_ones, texts in cases:
        args = [a for setting in sound + wrong_ones for a in ("--set", setting)]
        err = run(program, "run", *args, expect=code)[2]
        for text in texts:
            if text not in err:
                failures.append("%s: %r is not in %r" % (wrong_ones, text, err))
    err = run(program, "run", "--config", room, expect=2)[2]
    check("a directory as configuration", "it is a directory" in err, True)
    print("ok: %d wrong settings of a collector are told with cause and remedy" % (len(cases) + 1))


def main():
    all_commands = commands()
    check("the programs' commands are found", len(all_commands) > 12 * len(PROGRAMS), True)
    one_meaning(all_commands)
    with tempfile.TemporaryDirectory() as room:
        pages = os.path.join(room, "man")
        os.mkdir(pages)
        for program in PROGRAMS:
            run(program, "man", "--dir", pages, expect=0)
        manual(all_commands, pages)
        rendered(pages)
        print("ok: the manual has the texts of --help")
        if not failures:
            completion(all_commands, room)
            by_hand(room)
    former()
    refusals(all_commands)
    written(all_commands)
    if "procfleet-collector" in PROGRAMS and not EXE:
        with tempfile.TemporaryDirectory() as room:
            settings(room)
    for f in failures:
        print("failed: " + f)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
