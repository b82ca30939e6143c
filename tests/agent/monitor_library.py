"""The monitor as a library for others: docs/examples/monitor.c is built against the installed header and pkg-config file, with
nothing of the repository in reach, and prints a process as it starts, and its CPU."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import check, corpus, ensure, skip  # noqa: E402

TREE = os.environ["PROCFLEET_TREE"]
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/monitor.c")
BUSY = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"


def setting(name):
    with open(os.path.join(TREE, "CMakeCache.txt")) as f:
        return re.search(r"^%s:\w+=(.*)$" % name, f.read(), re.M).group(1)


def run(*command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          check=False, **more)
    text = done.stdout.decode(errors="replace")
    ensure(" ".join(command[:3]), done.returncode == 0, text)
    return text


def builds(prefix, top):
    library = next(d for d, _, names in os.walk(prefix) if "procfleet-monitor.pc" in names)
    flags = run("pkg-config", "--cflags", "--libs", "procfleet-monitor",
                env=dict(os.environ, PKG_CONFIG_PATH=library)).split()
    compiler = [setting("CMAKE_C_COMPILER"), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    compiler += setting("CMAKE_C_FLAGS").split()
    headers = os.path.join(prefix, "include", "procfleet")
    for directory, _, names in os.walk(headers):
        for name in names:  # none includes what is not installed
            header = os.path.relpath(os.path.join(directory, name), headers)
            run(*compiler, "-fsyntax-only", "-include", header, "-x", "c", os.devnull, *flags[:1], cwd=top)
    shutil.copy(EXAMPLE, top)
    run(*compiler, "monitor.c", "-o", "monitor", *flags, cwd=top)


def prints(top):
    program = os.path.join(top, "monitor")
    ensure("it ends by itself", subprocess.run([program, "1"], stdout=subprocess.DEVNULL,
                                               timeout=60, check=False).returncode == 0)
    with subprocess.Popen([program, "100"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watch:
        time.sleep(1)
        with subprocess.Popen(["sh", "-c", BUSY]) as child:
            left = [r"start %d \S+$", r"cpu %d \S+ [1-9]\d* ms$", r"stop %d \S+$"]
            for line in watch.stdout:  # in this order, and within its 100 s
                if re.match(left[0] % child.pid, line):
                    del left[0]
                if not left:
                    break
        watch.terminate()
    ensure("start, CPU and end of a process are printed", not left, str(left))


def reads(top):
    """Events that describe themselves, with their values."""
    out = run(os.path.join(top, "monitor"), corpus("public/SelfDescribingSingleEvent.etl"))
    check("an event of a recording", re.findall("^event .*", out, re.M),
          ['event 111592 MySource/TestEvent a{ b="Hello" c="World!" end'])


def main():
    if not shutil.which("pkg-config"):
        skip("pkg-config is not installed")
    with tempfile.TemporaryDirectory() as top:
        prefix = os.path.join(top, "prefix")
        run("cmake", "--install", TREE, "--component", "monitor", "--prefix", prefix)
        builds(prefix, top)
        prints(top)
        reads(top)


main()
