"""The checks notice every fault they are there for, and the summary counts what ctest reports: on made-up trees and reports."""
import os
import pathlib
import subprocess
import sys
import tempfile

import shape

HERE = pathlib.Path(__file__).resolve().parent

LAYERS = """
common/ : low loop loop2 loop3
agent/ : up
agent/room/ : door
collector/ : store
common/low <-
common/loop* <- common/loop*
agent/* <- common/* collector/* agent/*
collector/* <- common/*
common/two <- common/
tests/* <- agent/*
<nng/*> <- common/net*
"""
LONG = "void g(void)\n{\n" + "    x();\n" * 100 + "}\n"

# (check, path, text, what it must say; None: nothing)
FAULTS = [
    ("layers", "common/low.c", '#include "common/low.h"\n\n#include <stdio.h>\n', None),
    ("layers", "common/low.c", '#include "collector/store.h"\n', "common/low may not include collector/store"),
    ("layers", "common/low.c", '#include "low.h"\n', "is not a path from the root"),
    ("layers", "common/low.c", "#include <nng/nng.h>\n", "<nng/nng.h> may not be included here"),
    ("layers", "common/net.c", "#include <stdio.h>\n", "no rule in tests/lint/layers.txt"),
    ("layers", "common/low.c", '#include <stdio.h>\n\n#include "common/low.h"\n', "the own header comes first"),
    ("layers", "agent/up.c", '#include <a.h>\n#include "common/low.h"\n#include <b.h>\n', "<b.h> comes before"),
    ("layers", "common/loop.h", '#include "common/loop2.h"\n', "headers include each other"),
    ("layers", "common/low.c", "", "agent/* in the rule for agent/* fits no file"),
    ("layers", "agent/up.c", '#include "agent/room/door.h"\n', None),
    ("layers", "agent/up.c", '#include "agent/room/safe.h"\n', "agent/room/safe.h is private to agent/room/"),
    ("layers", "agent/room/safe.c", '#include "agent/room/safe.h"\n', None),
    ("layers", "tests/up.c", '#include "agent/room/safe.h"\n', None),
    ("layers", "agent/other/a.c", "", "agent/other/ has no contract"),
    ("text", "common/low.c", '/* strcpy( */ char *s = "malloc(";\n', None),
    ("text", "common/low.c", "int i = atoi(s);\n", "atoi is banned"),
    ("text", "common/low.c", "void *p = malloc(4);\n", "allocation goes through mem_*"),
    ("text", "common/low.c", "int i = f(g(s, &x), x);\n", "x is set by one argument and used as another"),
    ("text", "common/low.c", "int i = f(g(s, &x), x.n);\n", None),
    ("text", "common/low.c", "int i; // no\n", "comments are /* */"),
    ("text", "common/low.c", "/* TODO later */\n", "TODO(topic)"),
    ("text", "common/low.c", "#if defined(_WIN32)\n#endif\n", "platform code is a whole file"),
    ("text", "common/low.c", LONG, "g has 102 lines"),
    ("text", "common/low.c", "/*" + "─" * 96 + "*/\n", None),
    ("text", "common/low.c", "/*" + "─" * 97 + "*/\n", "101 columns, the limit is 100"),
    ("text", "common/low.c", "\n" * 1001, "1001 lines, the limit is 1000"),
    ("text", "common/two.h", "#ifndef X\n#define X\n#endif\n", "the include guard is PROCFLEET_COMMON_TWO_H"),
    ("text", "docs/a.md", "word " * 25, "125 columns of prose, the limit is 120"),
    ("text", "docs/a.md", "```text\n" + "word " * 25 + "\n```\n| " + "word " * 25 + "|\n\n    " + "word " * 25, None),
    ("text", "docs/a.md", "# A b\n[here](#a-b) [there](a.md#a-b)\n", None),
    ("text", "docs/a.md", "[there](b.md)\n", "there is no b.md"),
    ("text", "docs/a.md", "# A\n[there](#b)\n", "a.md has no heading #b"),
    ("text", "common/two.h", "enum err f(void);\n", "is NODISCARD"),
    ("web", "collector/console/web/a.js", "export const a = 'http://www.w3.org/2000/svg';\n", None),
    ("web", "collector/console/web/a.js", "e.innerHTML = t;\n", "texts are nodes, never markup"),
    ("web", "collector/console/web/a.js", "fetch('https://a.example/');\n", "an address of another origin"),
    ("web", "collector/console/web/b.js", "", "index.html has no modulepreload for it"),
    ("web", "collector/console/web/a.css", "a { background: url(//a.example/b) }\n", "an address of another origin"),
]

REPORT = """<testsuite>
<testcase name="unit" status="run"><system-out>[       OK ] a
[  SKIPPED ] b
skipped: nothing here
[       OK ] c</system-out></testcase>
<testcase name="script" status="run"><system-out>ok: fine</system-out></testcase>
<testcase name="away" status="notrun"><skipped message="x"/><system-out>skipped: nothing here</system-out></testcase>
<testcase name="mute" status="run"><system-out>[  SKIPPED ] m</system-out></testcase>
<testcase name="bad" status="fail"><system-out>[       OK ] d
[  FAILED  ] e
[  FAILED  ] e</system-out></testcase>
<testcase name="crash" status="fail"><system-out>[ RUN      ] f</system-out></testcase>
</testsuite>"""

# A ctest with three tests, one of which fails, and what people see of it.
CTEST = """#!/bin/sh
case $* in *show-only*) echo '{"tests": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}'; exit 0 ;; esac
cat <<'END'
      Start  1: a
      Start  2: b
1/3 Test  #1: a ................   Passed    0.02 sec
2/3 Test  #2: b ................***Failed    0.03 sec
b: why

      Start  3: c
3/3 Test  #3: c ................***Skipped   0.00 sec

66% tests passed, 1 tests failed out of 3
END
exit 8
"""
CTEST_SHOWN = """2/3 Test  #2: b ................***Failed    0.03 sec
b: why

release: 3 of 3 in 0 s
"""


def run(command, **more):
    result = subprocess.run([sys.executable, "-B", *command], capture_output=True, text=True, timeout=60, check=False, **more)
    return result.returncode, result.stdout + result.stderr


def expect(what, holds, output):
    if not holds:
        print(f"FAILED: {what}\n{output}")
        sys.exit(1)


def check_fault(check, path, text, message):
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        for room in ("common", "agent/room", "agent/other", "collector/console/web", "docs", "tests/lint"):
            (tree / room).mkdir(parents=True)
        (tree / "tests/lint/layers.txt").write_text(LAYERS, encoding="utf-8")
        web = tree / "collector/console/web"
        (web / "a.js").write_text("", encoding="utf-8")
        (web / "index.html").write_text('<link rel="modulepreload" href="./a.js">', encoding="utf-8")
        if check == "layers":
            for file in ("common/low.h", "common/two.h", "common/loop.h", "agent/up.h", "agent/room/door.h", "agent/room/safe.h", "collector/store.h", "tests/any.h"):
                (tree / file).write_text("", encoding="utf-8")
            if message and "fits no file" in message:
                for file in ("agent/up.h", "agent/room/door.h", "agent/room/safe.h"):
                    (tree / file).unlink()
            (tree / "common/loop2.h").write_text('#include "common/loop3.h"\n', encoding="utf-8")
            (tree / "common/loop3.h").write_text("", encoding="utf-8")
            if "loop" in path:
                (tree / "common/loop3.h").write_text('#include "common/loop.h"\n', encoding="utf-8")
        (tree / path).write_text(text, encoding="utf-8")
        code, output = run([HERE / f"{check}.py"], env={**os.environ, "PROCFLEET_LINT_ROOT": name})
    if message is None:
        expect(f"{check} accepts {text!r}", code == 0, output)
    else:
        expect(f"{check} says {message!r}", code == 1 and message in output, output)


# What a program printed when it failed, how it ended when it ran alone, and what is counted.
AGAIN = (
    ("too slow", "run", "1 passed, 0 failed, 0 skipped, 1 passed only the second time (t [asan])"),
    ("too slow", "fail", "0 passed, 1 failed, 0 skipped"),
    ("ERROR: AddressSanitizer: heap-use-after-free", "run", "0 passed, 1 failed, 0 skipped"),
    ("[  FAILED  ] a_test\nWARNING: ThreadSanitizer: its thread goes on", "run",
     "1 passed, 0 failed, 0 skipped, 1 passed only the second time (t [asan])"),
)


def check_summary():
    summary = HERE.parents[1] / "scripts/test-summary"
    with tempfile.TemporaryDirectory() as name:
        report = pathlib.Path(name) / "junit.xml"
        report.write_text(REPORT, encoding="utf-8")
        code, output = run([summary, f"asan={report}"])
        expect("failures are counted", code == 1 and output.endswith(
            "\n4 passed, 2 failed, 3 skipped (2 nothing here; 1 no reason printed)\n"), output)
        code, output = run([summary, "--not-run", "no time=7", f"asan={report}"])
        expect("what did not run is told", output.endswith("(2 nothing here; 1 no reason printed), 7 not run (no time)\n"), output)
        again = pathlib.Path(name) / "again.xml"
        for first, second, figures in AGAIN:
            report.write_text(f'<testsuite><testcase name="t" status="fail"><system-out>{first}</system-out></testcase></testsuite>')
            again.write_text(f'<testsuite><testcase name="t" status="{second}"/></testsuite>')
            code, output = run([summary, f"asan={report},{again}"])
            expect(f"after {first!r}, {second!r} counts", output.endswith(f"\n{figures}\n") or output == f"{figures}\n", output)
        code, output = run([summary, f"asan={name}/missing.xml"])
        expect("a missing report is a failure", code == 1 and output.endswith("0 passed, 1 failed, 0 skipped\n"), output)


# A ring of two, one of three behind it, and two modules in none.
RINGS = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}, "g": set()}
FUNCTIONS = """static int low_one(void)
{
}

struct low *low_two(int a,
                    int b)
{
}
"""


def check_shape():
    found = shape.circles(RINGS)
    expect("circles of files are found", found == [["a", "b"], ["c", "d", "e"]], found)
    names = list(shape.external_functions("common/low.c", FUNCTIONS))
    expect("static functions are not external", names == ["low_two"], names)


def check_progress():
    """What a build or ctest says is kept, the line says how far it is, and the exit code is the command's."""
    progress = HERE.parents[1] / "scripts/test-progress"
    with tempfile.TemporaryDirectory() as name:
        log = pathlib.Path(name) / "log"
        code, output = run([progress, "release", log, "sh", "-c", "echo '[1/2] one'; echo '[2/2] two'; exit 3"])
        expect("the command's exit code is given", code == 3, output)
        expect("what was done is counted", output.startswith("release: 2 of 2 in "), output)
        expect("the log has every line", log.read_text(encoding="utf-8") == "[1/2] one\n[2/2] two\n", output)
        ctest = pathlib.Path(name) / "ctest"
        ctest.write_text(CTEST, encoding="utf-8")
        ctest.chmod(0o755)
        code, output = run([progress, "release", log, "ctest"], env=dict(os.environ, PATH=f"{name}:{os.environ['PATH']}"))
        expect("only what failed is shown, with its output", code == 8 and output == CTEST_SHOWN, output)


def main():
    for fault in FAULTS:
        check_fault(*fault)
    check_summary()
    check_progress()
    check_shape()
    print(f"lint_selftest: {len(FAULTS)} made-up trees judged as they should be")


main()
