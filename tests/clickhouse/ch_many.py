"""test_ch_many against a server of its own; `--modern`: against ClickHouse of today, as lab.Engine has it."""

import os
import subprocess
import sys

import lab


def run(url):
    return subprocess.run([os.path.join(os.environ["PROCFLEET_BIN"], "tests", "test_ch_many"), "--url", url,
                           *[a for a in sys.argv[1:] if a != "--modern"]], check=False).returncode


if "--modern" in sys.argv:
    with lab.modern() as engine:
        code = run(engine.url)
else:
    with lab.opened() as ch:
        code = run(ch.server.url)
sys.exit(code)
