"""Rules of the text itself: banned functions, sizes, comments, platform conditions, header guards, NODISCARD."""
import re

import source

MAX_FUNCTION = 100
MAX_FILE = 1000
MAX_HEADER = 200
MAX_COLUMNS = 100
MAX_PROSE_COLUMNS = 120

BANNED = "strcpy strcat sprintf vsprintf strncpy strncat strtok gets atoi atol atof alloca".split()
# The allocator itself, and code that must not use the one under test.
RAW_ALLOCATION_IN = re.compile(r"common/base/mem\.c|tests/.*|docs/examples/.*")
RAW_ALLOCATION = "malloc calloc realloc free strdup strndup".split()
# Platform is chosen by CMake, by whole files.
PLATFORM_MACRO = re.compile(r"^\s*#\s*(?:el)?if.*\b(?:_WIN32|_WIN64|__linux__|__unix__|__MINGW32__|__MINGW64__|__CYGWIN__)\b", re.M)
PLATFORM_MACRO_IN = re.compile(r"common/(?:os/win32.*|base/err)\.h")  # err.h: which printf rules the compiler checks
# Returns the error it was given; waiting until a moment may end either way.
DISCARDABLE = {"errmsg_set", "os_cond_wait_until"}
# f(g(&x), x): which argument is evaluated first is not said, so x is what it was before or after g.
SET_BESIDE_USE = re.compile(r"[(,]\s*&(\w+)\),\s*\1(?=\s*[,)])")


def calls(text, names):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
    for match in pattern.finditer(text):
        yield match.start(), match.group(1)


def head_of(lines, start):
    """What stands before the brace in line `start`: result, name and parameters of a function."""
    head = []
    for line in reversed(lines[: start - 1]):
        if not line.strip() or line[0] in "}#" or line.rstrip().endswith((";", "}")):
            break
        head.insert(0, line)
    return " ".join(head)


def functions(text):
    """(first line, name, lines) of every function: Linux braces, so both stand in column 0."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            name = re.search(r"(\w+)\s*\(", head_of(lines, start)) # the first: parameters may be functions
            yield start, name.group(1) if name else "?", number - start + 1
            start = None


def check_names(path, text):
    for offset, name in calls(text, BANNED):
        yield f"{path}:{source.line_of(text, offset)}: {name} is banned"
    if not RAW_ALLOCATION_IN.fullmatch(path):
        for offset, name in calls(text, RAW_ALLOCATION):
            yield f"{path}:{source.line_of(text, offset)}: {name}: allocation goes through mem_*"
    for match in SET_BESIDE_USE.finditer(text):
        yield f"{path}:{source.line_of(text, match.start())}: {match.group(1)} is set by one argument and used as another"


def check_sizes(path, raw, text):
    count = text.count("\n")
    limit = MAX_HEADER if path.endswith(".h") else MAX_FILE
    if count > limit:
        yield f"{path}: {count} lines, the limit is {limit}"
    for number, line in enumerate(raw.splitlines(), 1):
        if len(line) > MAX_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, the limit is {MAX_COLUMNS}"
    for line, name, length in functions(text):
        if length > MAX_FUNCTION:
            yield f"{path}:{line}: {name} has {length} lines, the limit is {MAX_FUNCTION}"


def check_comments(path, raw):
    text = source.blank(raw, keep_comments=True)
    for match in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
        line = source.line_of(text, match.start())
        if match.group(0).startswith("//"):
            yield f"{path}:{line}: comments are /* */"
        if re.search(r"\b(?:TODO\b(?!\([\w -]+\): )|FIXME\b|XXX\b)", match.group(0)):
            yield f"{path}:{line}: a gap is marked TODO(topic): consequence"


def check_header(path, text):
    guard = "PROCFLEET_" + re.sub(r"\W", "_", path).upper()
    if f"#ifndef {guard}\n#define {guard}\n" not in text:
        yield f"{path}: the include guard is {guard}"
    for match in re.finditer(r"^enum err (\w+)\(", text, re.M):
        if match.group(1) in DISCARDABLE:
            continue
        before = text[: match.start()].rstrip().rsplit("\n", 1)[-1].strip()
        if before != "NODISCARD":
            yield f"{path}:{source.line_of(text, match.start())}: a function that returns enum err is NODISCARD"


def documents():
    return sorted(source.files(".md", rooms=("docs", "proto")) + [path.name for path in source.ROOT.glob("*.md")])


def check_prose(path, raw):
    """Documents: paragraphs and lists. Fences, tables and indented blocks show what a program prints or reads."""
    fenced = False
    for number, line in enumerate(raw.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and len(line) > MAX_PROSE_COLUMNS and not re.match(r"\s*\||\s{4,}\S", line):
            yield f"{path}:{number}: {len(line)} columns of prose, the limit is {MAX_PROSE_COLUMNS}"


def check_links(path, raw):
    """Links to files of the tree and to headings in them lead somewhere."""
    for match in re.finditer(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", raw):
        line = source.line_of(raw, match.start())
        target = source.ROOT / path if not match.group(1) else (source.ROOT / path).parent / match.group(1)
        if not target.exists():
            yield f"{path}:{line}: there is no {match.group(1)}"
        elif match.group(2):
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            if match.group(2) not in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}:
                yield f"{path}:{line}: {target.name} has no heading #{match.group(2)}"


def main():
    problems = []
    longest = (0, "")
    paths = source.files(".c", ".h")
    for path in paths:
        raw = source.read(path)
        text = source.blank(raw)
        problems += check_names(path, text)
        problems += check_sizes(path, raw, text)
        problems += check_comments(path, raw)
        if path.endswith(".h"):
            problems += check_header(path, text)
        if not PLATFORM_MACRO_IN.fullmatch(path):
            for match in PLATFORM_MACRO.finditer(text):
                problems.append(f"{path}:{source.line_of(text, match.start())}: platform code is a whole file, not an #if")
        for line, name, length in functions(text):
            longest = max(longest, (length, f"{name} ({path}:{line})"))
    for path in documents():
        raw = source.read(path)
        problems += check_prose(path, raw)
        problems += check_links(path, raw)
    source.report("lint_text", problems, f"{len(paths)} files; longest function: {longest[1]}, {longest[0]} lines")


if __name__ == "__main__":
    main()
