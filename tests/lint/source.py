"""What every lint check needs: the files of the tree and C text without its comments and strings."""
import os
import pathlib
import re

# Another tree may be checked: selftest.py makes one with every fault in it.
ROOT = pathlib.Path(os.environ.get("PROCFLEET_LINT_ROOT") or pathlib.Path(__file__).resolve().parents[2])
ROOMS = ("common", "agent", "collector", "docs", "tests")

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)


def files(*suffixes, rooms=ROOMS):
    """Our own files with one of the suffixes, as paths relative to the root, sorted."""
    found = []
    for room in rooms:
        for path in (ROOT / room).rglob("*"):
            if path.suffix in suffixes and path.is_file():
                found.append(path.relative_to(ROOT).as_posix())
    return sorted(found)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def blank(text, keep_comments=False):
    """The text with comments and the insides of strings replaced by spaces; lines and columns stay."""

    def spaces(match):
        if keep_comments and match.group("comment"):
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))

    return _TOKEN.sub(spaces, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(path):
    """(line, name, is_system) of every #include of the file."""
    for number, line in enumerate(read(path).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(2), match.group(1) == "<"


def report(check, problems, summary):
    """Prints the findings, ends the program with the verdict."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{check}: {len(problems)} problem(s)")
        raise SystemExit(1)
    print(f"{check}: {summary}")
    raise SystemExit(0)
