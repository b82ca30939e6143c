"""procfleet report: one file that asks nobody for anything and has no script. Chromium without a network: no console message,
every table with its caption and scopes, prints to PDF."""

import base64
import hashlib
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ["PROCFLEET_BIN"]
PROCFLEET = os.path.join(BIN, "procfleet")
PLANTED = "tests/common/fixtures/planted"
WHOLE = "tests/common/fixtures"  # run-v1.pfr: with series, lives, a crash, losses, notices
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
VOID = {"meta", "link", "br", "hr"}


def report(*args, expect=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_")}
    r = subprocess.run([PROCFLEET, "report", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       encoding="utf-8", env=env, timeout=120)
    assert r.returncode == expect, (args, r.returncode, r.stderr)
    return r.stdout


class Page(html.parser.HTMLParser):
    """Elements that close, tables with captions, headers with scopes, nothing from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tables, self.captions, self.names, self.svgs = [], 0, [], set(), 0
        self.feed(text)
        assert not self.stack, self.stack

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names.add(tag)
        for key in attrs:
            assert key not in ("src", "href", "srcset", "action", "style") and not key.startswith("on"), (tag, attrs)
        if tag == "th":
            assert attrs.get("scope") in ("col", "row"), attrs
        if tag == "svg":
            self.svgs += 1
            assert attrs.get("role") == "img" and attrs.get("aria-label"), attrs
        self.tables += tag == "table"
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "caption":
            self.captions.append(data)


def policy(text):
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = re.search(r"""Content-Security-Policy" content="default-src 'none'; style-src 'sha256-([^']*)'""", text).group(1)
    assert found == digest, "the policy's hash of the style is %s, not %s" % (found, digest)


def check(text):
    page = Page(text)
    assert len(text.encode()) <= 2 << 20
    assert page.tables == len(page.captions) and page.tables >= 4, page.captions
    assert "script" not in page.names
    policy(text)
    return page


def against():
    text = report("pr-*", "--against", "main-*", "--runs", PLANTED)
    page = check(text)
    for caption in ("A", "B", "Changes of B against A", "Changes, the largest first", "Hosts"):
        assert caption in page.captions, page.captions
    assert re.search(r'class="verdict">cpu_time \+8\.6 % \(\+7\.0 … \+10\.0 %\)\.<', text), text[:6000]
    assert page.svgs >= 2  # changes, and values of each run
    assert "8+8 runs, one stratum, interleaved" in text
    return text


def alone():
    text = report("nightly-412", "--runs", WHOLE)
    page = check(text)
    for caption in ("Runs", "Hosts", "Losses by host and time", "What took part, most CPU time first", "Processes", "Crashes",
                    "Notices"):
        assert caption in page.captions, page.captions
    assert "SIGSEGV" in text and "antivirus-cpu" in text and 'class="loss"' in text and "cc1 -quiet a.c" in text
    assert page.svgs >= 3
    return text


def wrong():
    report("none", "--runs", PLANTED, expect=1)
    report("--runs", PLANTED, expect=2)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "r.html")
        report("pr-*", "--runs", PLANTED, "-o", path)
        check(open(path, encoding="utf-8").read())


def browse(text):
    """Without a network and in a profile of its own: the DOM it makes, what its console says, and a PDF."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "r.html")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        base = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + os.path.join(d, "p"),
                "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0", "--disable-background-networking"]
        r = subprocess.run(base + ["--dump-dom", "file://" + path], capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
        assert r.stdout.count("<caption") == text.count("<caption"), "tables differ"
        told = [line for line in r.stderr.splitlines() if ":CONSOLE" in line or "Refused" in line]
        assert not told, told
        pdf = os.path.join(d, "r.pdf")
        r = subprocess.run(base + ["--print-to-pdf=" + pdf, "file://" + path],
                           capture_output=True, text=True, timeout=120)
        assert r.returncode == 0 and os.path.getsize(pdf) > 5000, r.stderr


def main():
    texts = [against(), alone()]
    wrong()
    if not CHROMIUM:
        print("skipped: the pages were checked, but chromium is not installed")
        sys.exit(77)
    for text in texts:
        browse(text)


main()
