"""`procfleet-agent.exe etl` under Wine: it starts procfleet-etl.exe beside it; arguments, output and exit codes go through."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, check, corpus, ensure  # noqa: E402

WINE = os.environ["WINE64"]
AGENT = os.path.join(BIN, "procfleet-agent.exe")
RECORDING = os.path.join(corpus("public"), "primitive-types.etl")


def run(*args, agent=AGENT):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = subprocess.run([WINE, agent, "etl", *args], timeout=60, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                              check=False).returncode
        for f in (out, err):
            f.seek(0)
        return code, out.read(), err.read().decode(errors="replace")


with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as room:
    direct = subprocess.run([WINE, os.path.join(BIN, "procfleet-etl.exe"), "events", "Z:" + RECORDING], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True).stdout
    check("what it prints is what the other prints", run("events", "Z:" + RECORDING), (0, direct, ""))
    odd = os.path.join(room, 'a file\\ with "blanks"\\')  # Wine keeps such a name from no program
    code, _, err = run("info", odd, "b c\\")
    ensure("exit code 1 comes through, and each argument as it was", code == 1 and '"blanks"' in err and "b c" in err, (code, err))
    check("exit code 2 likewise", run("nonsense")[0], 2)
    code, _, err = run("info", "x", agent=shutil.copy(AGENT, room))
    ensure("without procfleet-etl.exe the agent says so, and what to do", code == 1 and "not found" in err and "install" in err, err)
