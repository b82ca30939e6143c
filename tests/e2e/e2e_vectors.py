"""test_decode_vectors FILE.json names every wrong field, and takes every file of the form."""

import copy
import json
import os
import subprocess
import tempfile

from fleet import BIN, corpus, ensure

PROGRAM = os.path.join(BIN, "test_decode_vectors")
VECTORS = corpus("public/kernel-payload-vectors.json")


def run(text):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        return subprocess.run([PROGRAM, f.name], capture_output=True, text=True, timeout=60)


def integers(field):
    return field[1][0] in "ui" and field[1][1:].isdigit()


def plus_one(field):
    bits = int(field[1][1:]) - (field[1][0] == "i")
    field[2] += -1 if field[2] == (1 << bits) - 1 else 1


def other_width(field):
    field[1] = field[1][0] + {"8": "16", "16": "32", "32": "64", "64": "32"}[field[1][1:]]


def longer(field):
    field[2] += "x"


def other_text(field):
    field[1] = "str" if field[1] == "wstr" else "wstr"


def other_name(field):
    field[0] += "_"


def other_expression(field):
    field[2] = field[2].replace("(", "(1", 1)


MUTATIONS = [  # which fields, what is done to them
    (integers, plus_one),
    (integers, other_width),
    (lambda f: f[1] in ("str", "wstr"), longer),
    (lambda f: f[1] in ("str", "wstr"), other_text),
    (lambda f: True, other_name),
    (lambda f: f[1] == "complex" and f[2].startswith("Make"), other_expression),
]


def every_wrong_field_is_named(good):
    for wanted, change in MUTATIONS:
        bad = copy.deepcopy(good)
        names = []
        for vector in bad["vectors"]:
            for field in filter(wanted, vector["expected_fields"]):
                change(field)
                names.append("%s: %s: expected " % (vector["name"], field[0]))
        r = run(json.dumps(bad))
        lines = r.stdout.splitlines()[:-1]
        ok = r.returncode == 1 and len(lines) == len(names) and all(l.startswith(n) for l, n in zip(lines, names))
        ensure("%s: each of %d fields is named" % (change.__name__, len(names)), ok, lines[-1:])


def files_of_the_form_are_taken(good):
    other = copy.deepcopy(good)
    for vector in other["vectors"]:
        vector["new"] = {"any": [1, None]}
        vector["payload_hex"] = vector["payload_hex"].upper()
        del vector["category"], vector["length"]
        for field in filter(integers, vector["expected_fields"]):
            field[2] = str(field[2])
    for text, what in ((json.dumps(good, indent=8), "indented"), (json.dumps(other), "other members, numbers as text"),
                       (json.dumps(good["vectors"]), "a list")):
        r = run(text)
        ensure("%s: taken" % what, r.returncode == 0, r.stdout + r.stderr)


def useless_files_are_told():
    for text in ("", "{", "[]", '{"vectors": 5}'):
        r = run(text)
        ensure("%r is refused" % text, r.returncode == 2 and r.stderr.startswith("test_decode_vectors: "), r.stderr)
    r = subprocess.run([PROGRAM, "/nonexistent.json"], capture_output=True, text=True, timeout=60)
    ensure("a missing file is told", r.returncode == 2 and "cannot be opened" in r.stderr, r.stderr)
    r = run('[{"name": "x", "provider": "none"}]')
    ensure("an unusable vector is told", r.returncode == 1 and "x: (vector): " in r.stdout, r.stdout)


def main():
    with open(VECTORS) as f:
        good = json.load(f)
    every_wrong_field_is_named(good)
    files_of_the_form_are_taken(good)
    useless_files_are_told()


main()
