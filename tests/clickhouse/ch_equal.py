"""test_ch_equal against a server of its own: `ch_equal.py [SEEDS]`, 10 when not said, 200 with --long."""

import os
import subprocess
import sys

import lab

BIN = os.environ["PROCFLEET_BIN"]

with lab.opened() as ch:
    sys.exit(subprocess.run([os.path.join(BIN, "tests", "test_ch_equal"), "--url", ch.server.url, "--seeds",
                             sys.argv[1] if len(sys.argv) > 1 else "10"], check=False).returncode)
