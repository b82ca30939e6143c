"""test_ch_equal against a server of its own: `ch_equal.py [SEEDS]`, 10 when not said (of them three that have differed once), 200
with --long."""

import os
import subprocess
import sys

import lab

BIN = os.environ["PROCFLEET_BIN"]

spans = [(1, int(sys.argv[1]))] if len(sys.argv) > 1 else [(1, 7), (25, 1), (28, 1), (38, 1)]
with lab.opened() as ch:
    codes = [subprocess.run([os.path.join(BIN, "tests", "test_ch_equal"), "--url", ch.server.url, "--first", str(first), "--seeds", str(n)],
                            check=False).returncode for first, n in spans]
sys.exit(max(codes))
