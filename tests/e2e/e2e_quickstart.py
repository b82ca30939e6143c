"""scripts/quickstart with a recording that holds no processes and a file that is none: it says so, and what it started goes on."""

import os
import shutil
import subprocess
import sys
import tempfile

from fleet import BIN, ROOT, ensure, skip

CORPUS = os.environ.get("PROCFLEET_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
RECORDING = os.path.join(CORPUS, "public", "SelfDescribingSingleEvent.etl")


def quickstart(*args, expect):
    done = subprocess.run([os.path.join(ROOT, "scripts", "quickstart"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240, check=False)
    text = done.stdout.decode(errors="replace")
    ensure("quickstart %s: exit code %d" % (" ".join(args), expect), done.returncode == expect, text)
    return text


def asked(directory, *args):
    """procfleet by the environment that quickstart left."""
    return subprocess.run(["bash", "-c", '. "$0/env" && procfleet "$@"', directory, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)


def main():
    if os.path.realpath(BIN) != os.path.realpath(os.path.join(ROOT, "build", "release", "bin")):
        skip("quickstart shows what stands in build/release")
    if not os.path.exists(RECORDING):
        skip("corpus not found")
    work = tempfile.mkdtemp(prefix="procfleet-quickstart-")
    directory = os.path.join(work, "run")
    torn = os.path.join(work, "torn.etl")
    with open(torn, "wb") as f:
        f.write(b"no recording")
    try:
        text = quickstart("--keep", "--dir", directory, "--etl", RECORDING, "--etl", torn, expect=1)
        ensure("it says that there is nothing to show", "SelfDescribingSingleEvent.etl has no processes to show. It holds:" in text, text)
        ensure("and which provider's events it holds", "events" in text.split("It holds:")[1], text)
        ensure("it says which replay failed", "replay-torn.log" in text, text)
        ensure("it gets to its end", "Collector and agent go on running" in text, text)
        hosts = asked(directory, "hosts", "--format", "csv")
        ensure("the collector still answers", hosts.returncode == 0 and b"connected" in hosts.stdout, hosts.stdout)
        quickstart("--stop", "--dir", directory, expect=0)
        ensure("and is stopped", asked(directory, "hosts").returncode == 3, None)
    finally:
        subprocess.run([os.path.join(ROOT, "scripts", "quickstart"), "--stop", "--dir", directory], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
    return 0


sys.exit(main())
