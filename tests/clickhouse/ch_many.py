"""test_ch_many against a server of its own."""

import os
import subprocess
import sys

import lab

with lab.opened() as ch:
    code = subprocess.run([os.path.join(os.environ["PROCFLEET_BIN"], "tests", "test_ch_many"), "--url", ch.server.url, *sys.argv[1:]],
                          check=False).returncode
sys.exit(code)
