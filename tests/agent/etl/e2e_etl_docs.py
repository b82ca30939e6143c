"""What docs/etl-tool.md shows is what the program says: each example that has an output is run on the recording it names. A line of the page may lack
columns and end with an ellipsis, its words must stand in one line of the answer in their order."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))

from fleet import BIN, ROOT, check, corpus, ensure  # noqa: E402

NAMES = {"PktMon.etl": "pktmon-demikernel.etl"}  # as people call it


def examples():
    """(command, the lines below it), of the page's indented blocks."""
    with open(os.path.join(ROOT, "docs", "etl-tool.md"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    found = []
    for i, line in enumerate(lines):
        if line.startswith("    $ "):
            shown = []
            for below in lines[i + 1:]:
                if not below.startswith("    ") or below.startswith("    $ "):
                    break
                shown.append(below.strip())
            if shown:
                found.append((line[6:], shown))
    return found


def recording(word):
    word = NAMES.get(word, word)
    path = os.path.join(corpus("public"), word)
    return path if os.path.exists(path) else word


def words(line):
    return [w.rstrip("…") for w in re.split(r"\s+", line.strip()) if w.rstrip("…")]


def stands_in(shown, line):
    """In their order; a word may be cut, and file names lie in another directory."""
    at = 0
    for w in words(shown):
        while at < len(line) and not (line[at] == w or line[at].startswith(w) or os.path.basename(line[at]).startswith(w)):
            at += 1
        if at == len(line):
            return False
        at += 1
    return True


def run(command):
    command = command.split(" | ")[0].replace("procfleet-agent etl", "procfleet-etl")
    args = [recording(w.strip("'")) for w in command.split()[1:]]
    args = [os.devnull if a == "a.cap" else a for a in args]
    r = subprocess.run([os.path.join(BIN, "procfleet-etl"), *args, "--wide"], capture_output=True, text=True, timeout=60, check=False)
    ensure("%s" % command, r.returncode == 0, r.stderr)
    answer = r.stdout + r.stderr
    for shown, ours in [(os.devnull, "a.cap")] + [(v, k) for k, v in NAMES.items()]:
        answer = answer.replace(shown, ours)
    return [words(line) for line in answer.splitlines()]


if __name__ == "__main__":
    every = examples()
    ensure("examples with an output: %d" % len(every), len(every) >= 9)
    for asked, lines in every:
        answer = run(asked)
        check("as the page shows it", [s for s in lines if not any(stands_in(s, a) for a in answer)], [])
