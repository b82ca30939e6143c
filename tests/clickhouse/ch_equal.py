"""test_ch_equal against a server of its own: `ch_equal.py [--modern] [SEEDS]`, 10 when not said (of them three that have differed once),
200 with --long. --modern: against ClickHouse of today, as lab.Engine has it."""

import os
import subprocess
import sys

import lab

BIN = os.environ["PROCFLEET_BIN"]


def compare(url, spans):
    return max(subprocess.run([os.path.join(BIN, "tests", "test_ch_equal"), "--url", url, "--first", str(first), "--seeds", str(n)],
                              check=False).returncode for first, n in spans)


seeds = [int(a) for a in sys.argv[1:] if a != "--modern"]
todo = [(1, seeds[0])] if seeds else [(1, 7), (25, 1), (28, 1), (38, 1)]
if "--modern" in sys.argv:
    with lab.modern() as engine:
        code = compare(engine.url, todo)
else:
    with lab.opened() as ch:
        code = compare(ch.server.url, todo)
sys.exit(code)
