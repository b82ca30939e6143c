#!/usr/bin/env python3
"""Everything that the console is to be judged by, each figure on a line beside its goal.

    ninja -C build/release bench_console bench_fleet procfleet procfleet-agent procfleet-collector
    python3 -B tests/bench/console_page.py [--quick] [--only PART]

    questions   CPU of series, lifetimes and hosts (bench_console)
    hour        frames while zooming: plots of an hour, areas, lines, heat; a live step     in a real chromium,
    lives       frames and hover of 20,000 bars                                             against real collectors
    fleet       4,000 hosts through both doors: first paint, use, order of the rows, bytes of the page
    heap        half an hour live: heap and its slope; then requests of a hidden tab
    tabs        a visible tab's CPU of the collector; acknowledgements of 4,000 agents beside ten (bench_fleet)

bench_console fills the stores (--keep DIR keeps them for the next run; the fleet's takes minutes and 1 GB). Without chromium,
chromedriver and python3-selenium it is skipped.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import browser  # noqa: E402

browser.need()

from browser import Browser  # noqa: E402
from e2e_console_browser import Door, agent, asked, login  # noqa: E402
from e2e_console_heap import MB, slope, watched  # noqa: E402
from fleet import BIN, Fleet  # noqa: E402

ROUNDS = 5
QUIET = "!document.querySelector('[aria-busy]') && !document.querySelector('.panel.loading')"

# When the page could be used: rows of hosts are there. Looked at in every frame.
USABLE = """
  const look = () => {
    if (document.querySelectorAll('main tbody tr[role=row]').length > 0) { window.usable = performance.now(); return; }
    requestAnimationFrame(look);
  };
  document.addEventListener('DOMContentLoaded', look);
"""

# Turns of the wheel, one a frame, in and out around the middle: time from frame to frame and of all script in a frame.
FRAMES = """
  const [selector, frames, done] = arguments;
  const node = document.querySelector(selector);
  const box = node.getBoundingClientRect();
  const at = {clientX: box.left + box.width * 0.6, clientY: box.top + box.height / 2, bubbles: true, cancelable: true, ctrlKey: true};
  const own = window.requestAnimationFrame;
  let script = 0;
  window.requestAnimationFrame = (f) => own((t) => { const b = performance.now(); f(t); script += performance.now() - b; });
  const scripts = [], times = [];
  let n = 0, last = 0;
  const turn = (t) => {
    if (last) { times.push(t - last); scripts.push(script); }
    last = t;
    script = 0;
    if (n++ === frames) { window.requestAnimationFrame = own; done({times: times.slice(5), scripts: scripts.slice(5)}); return; }
    const b = performance.now();
    node.dispatchEvent(new WheelEvent('wheel', {...at, deltaY: n % 16 < 8 ? -1 : 1}));
    script += performance.now() - b;
    own(turn);
  };
  own(turn);
"""

HOVER = """
  const [selector, moves] = arguments;
  const node = document.querySelector(selector);
  const box = node.getBoundingClientRect();
  const took = [];
  for (let i = 0; i < moves; i++) {
    const at = {clientX: box.left + 160 + (i * 37) % (box.width - 170), clientY: box.top + 65 + (i * 11) % (box.height - 160), bubbles: true};
    const b = performance.now();
    node.dispatchEvent(new PointerEvent('pointermove', at));
    took.push(performance.now() - b);
  }
  return took;
"""

SORT = """
  const took = [];
  for (let i = 0; i < 6; i++) {
    const th = [...document.querySelectorAll('main th button')].find((b) => b.textContent.startsWith(arguments[0]));
    const b = performance.now();
    th.click();
    document.querySelector('main table').getBoundingClientRect();
    took.push(performance.now() - b);
  }
  return took;
"""


class Figures:
    def __init__(self, as_json):
        self.json, self.missed = as_json, 0

    def __call__(self, name, value, unit, goal=None):
        missed = goal is not None and value > goal
        self.missed += missed
        if self.json:
            print(json.dumps({"figure": name, "value": round(value, 2), "unit": unit, "goal": goal}), flush=True)
        else:
            print("  %-48s %10.1f %-4s %s%s" % (name, value, unit, "" if goal is None else "<= %g" % goal, "  missed" if missed else ""),
                  flush=True)


def p95(values):
    return sorted(values)[int(len(values) * 0.95)]


def cpu_s(pid):
    """CPU time of a process and all that it started."""
    of = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open("/proc/%s/stat" % name).read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        of.setdefault(int(fields[1]), []).append(int(name))
        of[-int(name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    todo, sum_ = [pid], 0
    while todo:
        one = todo.pop()
        sum_ += of.get(-one, 0)
        todo += of.get(one, [])
    return sum_


class Page:
    """A collector on a store, a door, a browser that is logged in."""

    def __init__(self, fleet, store, door="A"):
        self.fleet = fleet
        fleet.start_collector(data_dir=store, listen__console="127.0.0.1:0")
        self.open(door)

    def open(self, door):
        tls = self.fleet.tls("operator")
        env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + self.fleet.ports["query"], PROCFLEET_CA=tls["ca"],
                   PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
        more = ["--direct"] if door == "B" else ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen([os.path.join(BIN, "procfleet"), "console", "--no-open", *more], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.fleet.processes.append(self.process)
        link = ""
        while "#ticket=" not in link:
            link = self.process.stdout.readline()
        self.origin = link.split("/#")[0]
        self.browser = Browser(tempfile.mkdtemp(prefix="browser-", dir=self.fleet.dir), logs=False)
        self.browser.driver.set_script_timeout(120)
        self.browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=USABLE)
        self.browser.open(link.strip())
        self.browser.wait("the first view", "window.usable", 60)
        self.quiet()

    def quiet(self):
        self.browser.wait("answers", QUIET, 60)
        time.sleep(0.4)

    def go(self, fragment):
        self.browser.driver.execute_async_script("location.hash = arguments[0]; setTimeout(arguments[1], 60)", fragment)
        self.quiet()

    def ask(self, name):
        return self.browser.driver.execute_async_script(
            "const [p, done] = arguments; fetch('/api/v1/' + p, {headers: {'X-Procfleet-Key': localStorage.getItem('procfleet.key')}})"
            ".then((r) => r.json()).then(done)", name)

    def range(self, minutes):
        """The last so many minutes of the data, as a link says them."""
        last = int(self.ask("hosts")["hosts"][0]["last_ns"]) / 1e9
        form = lambda s: time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(s))  # noqa: E731
        return "t=%s..%s" % (form(last - 60 * minutes), form(last))

    def shut(self):
        self.browser.close()
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.shut()
        self.fleet.stop(self.fleet.collector)


def loads(page, figure, door, hosts):
    """From the address to the first contents and to rows that can be used: nothing in the cache, then all of it."""
    b = page.browser
    for kept, name in ((False, "first visit"), (True, "again")):
        paints, uses, all_, cpu = [], [], [], []
        for _ in range(ROUNDS):
            if not kept:
                b.cdp("Network.enable")
                b.cdp("Network.clearBrowserCache")
            b.open("about:blank")
            b.open(page.origin + "/#/")
            b.wait("the view", "window.usable", 60)
            cpu.append(1000 * metrics(b)["TaskDuration"])
            b.wait("all answers", QUIET, 60)
            all_.append(b.js("return performance.now()"))
            paints.append(b.js("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            uses.append(b.js("return window.usable"))
        goal = hosts >= 4000
        figure("door %s, %s: first paint" % (door, name), statistics.median(paints), "ms", 300 if goal else None)
        figure("door %s, %s: usable" % (door, name), statistics.median(uses), "ms", 700 if goal else None)
        figure("door %s, %s: CPU of the page's thread" % (door, name), statistics.median(cpu), "ms")
        figure("door %s, %s: every answer drawn" % (door, name), statistics.median(all_), "ms")
        if not kept:
            size = b.js("return performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))"
                        ".filter((e) => !e.name.includes('/api/')).reduce((sum, e) => sum + e.encodedBodySize, 0)")
            figure("door %s: bytes of the page, packed" % door, size / 1000, "kB", 150)
    sizes = b.js("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/'))"
                 ".map((e) => [e.name.split('/v1/')[1].slice(0, 30), Math.round(e.duration), e.decodedBodySize])")
    for name, ms, size in sizes:
        print("    %-32s %6d ms %9d B" % (name, ms, size), file=sys.stderr)


def frames(page, figure, name, selector, n=160):
    pid = page.browser.driver.service.process.pid
    cpu, main = cpu_s(pid), metrics(page.browser)
    got = page.browser.driver.execute_async_script(FRAMES, selector, n)
    cpu, main = cpu_s(pid) - cpu, metrics(page.browser)["TaskDuration"] - main["TaskDuration"]
    page.quiet()
    figure("%s: script of a frame, p50" % name, statistics.median(got["scripts"]), "ms", 8)
    figure("%s: CPU of a frame, main thread" % name, 1000 * main / n, "ms")
    figure("%s: CPU of a frame, whole browser" % name, 1000 * cpu / n, "ms")
    figure("%s: frame, p50" % name, statistics.median(got["times"]), "ms")
    figure("%s: frame, p95" % name, p95(got["times"]), "ms", 33.5)


def fleet_view(fleet, figure, store, hosts):
    page = Page(fleet, store)
    loads(page, figure, "A", hosts)
    page.shut()
    page.open("B")
    loads(page, figure, "B", hosts)
    before = metrics(page.browser)["TaskDuration"]
    took = page.browser.js(SORT, "COVER")
    figure("sort %d rows, CPU" % hosts, 1000 * (metrics(page.browser)["TaskDuration"] - before) / len(took), "ms", 50)
    figure("sort %d rows, worst" % hosts, max(took), "ms", 50)
    page.close()


def plots(fleet, figure, store):
    page = Page(fleet, store)
    b, t = page.browser, page.range(58)
    host = page.ask("hosts")["hosts"][0]["name"]
    page.go("#/h/%s?%s" % (host, t))
    b.shot("host")
    frames(page, figure, "Host, five plots of 58 min", ".plot canvas:last-of-type")
    page.go("#/h/%s?%s" % (host, page.range(15)))
    frames(page, figure, "Host, five plots of 15 min", ".plot canvas:last-of-type")
    page.go("#/top?%s" % page.range(15))
    frames(page, figure, "Processes, 12 areas", ".plot canvas:last-of-type")
    page.go("#/top?mode=lines&%s" % page.range(15))
    frames(page, figure, "Processes, 12 lines", ".plot canvas:last-of-type")
    page.go("#/top?mode=heat&%s" % page.range(15))
    frames(page, figure, "Processes, heat", ".plot canvas:last-of-type")
    page.go("#/h/%s?t=-60m&live=2s" % host)
    before = metrics(b)
    steps = 10
    time.sleep(2 * steps)
    after = metrics(b)
    figure("Host, live: CPU of a step, main thread", 1000 * (after["TaskDuration"] - before["TaskDuration"]) / steps, "ms", 16)
    page.close()


def metrics(b):
    """Of the page's main thread, in CPU time."""
    b.cdp("Performance.enable", timeDomain="threadTicks")
    wanted = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration", "TaskDuration")
    return {m["name"]: m["value"] for m in b.cdp("Performance.getMetrics")["metrics"] if m["name"] in wanted}


def bars(fleet, figure, store):
    page = Page(fleet, store)
    page.go("#/timeline?%s" % page.range(40))
    n = page.browser.js("return document.querySelector('.panel .note').innerText")
    print("    " + n, file=sys.stderr)
    frames(page, figure, "Timeline, 20,000 bars", ".lanes")
    worst = [max(page.browser.js(HOVER, ".lanes", 400)) for _ in range(3)]
    figure("Timeline: hover, worst of 400, median of 3 rounds", statistics.median(worst), "ms", 4)
    page.close()


def heap(figure, minutes):
    """Two hosts, the Host view live; then the same tab hidden."""
    with Fleet() as fleet:
        fleet.start_collector(http__refresh="1s")
        agent(fleet, "db-1")
        agent(fleet, "web-1")
        fleet.wait_for("data of both", lambda: all(fleet.hosts().get(h, {}).get("batches", 0) > 4 for h in ("web-1", "db-1")))
        door = Door(fleet, "operator")
        b = Browser(fleet.path("browser"), logs=False)
        try:
            login(b, door)
            points, _ = watched(b, 60 * minutes)
            long = minutes >= 20  # what is compiled late weighs too much in less
            figure("heap after %g min live, most" % minutes, max(p[1] for p in points) / MB, "MB", 60)
            figure("heap, slope", slope(points) / MB, "MB/h", 1 if long else None)
            b.driver.minimize_window()
            b.wait("the page to be hidden", "document.hidden")
            time.sleep(5)  # what was under way is counted when it ends
            before = sum(asked(fleet).values())
            time.sleep(20)
            figure("requests of a hidden tab in 20 s", sum(asked(fleet).values()) - before, "", 0)
        finally:
            b.close()


def program(figure, name, *args):
    """A benchmark that prints figures beside goals itself."""
    done = subprocess.run([os.path.join(BIN, name), *args], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    figure.missed += done.stdout.count("  missed") + (done.returncode != 0)


def questions(figure, quick):
    program(figure, "bench_console", *["--quick"] * quick, *["--json"] * figure.json)


def tabs(figure, quick):
    form = ["--format", "json"] if figure.json else []
    program(figure, "bench_fleet", "--agents", "20", "--seconds", "5" if quick else "60", "--tabs", "2", *form)
    if not quick:
        program(figure, "bench_fleet", "--agents", "4000", "--premade", "--seconds", "60", "--tabs", "10", *form)


PARTS = ("questions", "hour", "lives", "fleet", "heap", "tabs")


def main():
    global ROUNDS
    options = argparse.ArgumentParser()
    options.add_argument("--hosts", type=int, default=4000)
    options.add_argument("--only", choices=PARTS)
    options.add_argument("--minutes", type=float, default=30, help="that the heap is watched")
    options.add_argument("--quick", action="store_true", help="small stores and short spans, for trying it out")
    options.add_argument("--keep", help="stores are made here, and used again if they are there")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    figure = Figures(given.json)
    wanted = [given.only] if given.only else PARTS
    if given.quick:
        given.hosts, given.minutes, ROUNDS = min(given.hosts, 200), min(given.minutes, 0.5), 2
    if "questions" in wanted:
        questions(figure, given.quick)
    with Fleet() as fleet:
        for name, run in (("hour", plots), ("lives", bars), ("fleet", lambda *a: fleet_view(*a, given.hosts))):
            if name not in wanted:
                continue
            store = os.path.join(given.keep or fleet.dir, "%s-%d" % (name, given.hosts) if name == "fleet" else name)
            if not os.path.exists(store):
                os.makedirs(store)
                subprocess.run([os.path.join(BIN, "bench_console"), "--fill", store, "--only", name, "--hosts", str(given.hosts)], check=True)
            if not given.json:
                print("%s:" % name)
            run(fleet, figure, store)
    if "heap" in wanted:
        heap(figure, given.minutes)
    if "tabs" in wanted:
        tabs(figure, given.quick)
    print("%d missed" % figure.missed, file=sys.stderr)


if __name__ == "__main__":
    main()
