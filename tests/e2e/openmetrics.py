"""A strict reader of OpenMetrics 1.0 text: what it does not know is an error. Counters, gauges and infos only, without timestamps."""

import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
SUFFIX = {"counter": "_total", "gauge": "", "info": "_info"}
RESERVED = ("_total", "_info", "_created", "_count", "_sum", "_bucket")


class Wrong(Exception):
    pass


def need(condition, line, why):
    if not condition:
        raise Wrong("%s: %r" % (why, line))


def labels(text, line):
    """What stands between the braces, as a dictionary."""
    found, i = {}, 0
    while i < len(text):
        eq = text.find('="', i)
        need(eq > 0 and LABEL.match(text[i:eq]), line, "a label without name or value")
        name, i, value = text[i:eq], eq + 2, ""
        while text[i : i + 1] not in ('"', ""):
            if text[i] == "\\":
                need(text[i + 1 : i + 2] in ("\\", '"', "n"), line, "an unknown escape")
                value += "\n" if text[i + 1] == "n" else text[i + 1]
                i += 1
            else:
                value += text[i]
            i += 1
        need(text[i : i + 1] == '"', line, "a value without end")
        need(name not in found, line, "a label twice")
        found[name] = value
        i += 1
        if i < len(text):
            need(text[i] == "," and i + 1 < len(text), line, "labels without a comma between them")
            i += 1
    return found


def sample(line):
    """(name, labels, value)"""
    if "{" in line:
        name, _, rest = line.partition("{")
        inside, brace, value = rest.rpartition("} ")
        need(brace, line, "braces without end")
        pairs = labels(inside, line)
        need(pairs, line, "empty braces")
    else:
        name, _, value = line.partition(" ")
        pairs = {}
    need(NAME.match(name), line, "no name")
    need(NUMBER.match(value), line, "no number")
    return name, pairs, float(value)


def read(raw):
    """{family: {"type", "help", "unit", "samples": {(name, sorted labels): value}}} of the whole text."""
    text = raw.decode("utf-8")  # strict
    if not text.endswith("\n# EOF\n"):
        raise Wrong("the text does not end with # EOF")
    families, family = {}, None
    for line in text[: -len("# EOF\n")].split("\n")[:-1]:
        if line.startswith("# "):
            what, name, rest = (line[2:].split(" ", 2) + ["", ""])[:3]
            need(what in ("TYPE", "HELP", "UNIT"), line, "an unknown comment")
            if family is None or family["name"] != name:
                need(name not in families, line, "a family in two places")
                need(NAME.match(name) and not name.endswith(RESERVED), line, "no name for a family")
                family = families[name] = {"name": name, "samples": {}}
            need(not family["samples"], line, "a header behind samples")
            need(what.lower() not in family, line, "a header twice")
            family[what.lower()] = rest
            need(what != "TYPE" or rest in SUFFIX, line, "an unknown type")
            need(what != "UNIT" or name.endswith("_" + rest), line, "the unit is no part of the name")
            continue
        name, pairs, value = sample(line)
        need(family and "type" in family and family.get("help"), line, "a sample without TYPE and HELP")
        need(name == family["name"] + SUFFIX[family["type"]], line, "a sample that is not its family's")
        need(family["type"] != "counter" or value >= 0, line, "a counter below zero")
        key = (name, tuple(sorted(pairs.items())))
        need(key not in family["samples"], line, "a sample twice")
        family["samples"][key] = value
    return families


def value(families, name, **pairs):
    """The one sample of this name and these labels, or None."""
    for f in families.values():
        if (name, tuple(sorted(pairs.items()))) in f["samples"]:
            return f["samples"][(name, tuple(sorted(pairs.items())))]
    return None


def rows(families, name):
    """[(labels, value)] of all samples of a name."""
    return [(dict(pairs), v) for f in families.values() for (n, pairs), v in f["samples"].items() if n == name]


def refused(raw):
    try:
        read(raw)
    except (Wrong, UnicodeDecodeError):
        return True
    return False


# The reader itself: it takes the first and none of the others.
GOOD = b'# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes x\na_bytes{b="c\\"\\\\\\n,}"} 1\n# EOF\n'
BAD = (GOOD[:-6], GOOD + b"\n", GOOD.replace(b"UNIT a_bytes bytes", b"UNIT a_bytes seconds"), GOOD.replace(b"gauge", b"counter"),
       GOOD.replace(b'"} 1', b'"} 1\na_bytes{b="c\\"\\\\\\n,}"} 2'), GOOD.replace(b"# HELP a_bytes x\n", b""),
       GOOD.replace(b"\\\\", b"\\x"), GOOD.replace(b"} 1", b"} NaN"), GOOD.replace(b"c", b"\xff"), GOOD.replace(b'"} 1', b'",} 1'))
assert not refused(GOOD) and all(refused(b) for b in BAD)
