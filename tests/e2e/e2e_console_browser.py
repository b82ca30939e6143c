#!/usr/bin/env python3
"""The console in a real browser: by keys alone, with losses, hostile names, a collector that dies, and no network."""

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import browser

browser.need()

from selenium.webdriver.common.keys import Keys  # noqa: E402

from browser import Browser  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402

FAST = {"sampling__rate_hz": "10", "batch__samples": "5", "batch__max_age": "1s"}
MARKUP, TURNED = "<img src=x onerror=document.title=1>", "gpj.\u202eexe"
VIEWS = (("1", "Fleet"), ("2", "Host"), ("3", "Processes"), ("4", "Process"), ("5", "Timeline"), ("6", "Events"), ("7", "Losses"),
         ("8", "Compare"), ("9", "Rules"))
# One that fires for a program whose name is markup, one that never does, one of which nothing is known.
RULES = """
defaults: {coverage: 1%, late: 5s}
rules:
  - {name: markup, of: image, where: 'name ~ "*img*"', when: 'count(pid, 10s) > 0', severity: critical, say: '{name} on {host}'}
  - {name: quiet, of: host, when: 'count(pid, 10s) < 0'}
"""
GUTTER = 150  # px, of a timeline's labels
QUIET = "!document.querySelector('[aria-busy]') && !document.querySelector('.panel.loading')"

# Pixels of a canvas between two columns, of its whole height, whose colour is about that of the hatch.
HATCHED = """
  const [selector, x0, x1] = arguments;
  const c = document.querySelector(selector), k = c.width / c.getBoundingClientRect().width;
  const w = Math.max(1, Math.round((x1 - x0) * k));
  const copy = Object.assign(document.createElement('canvas'), {width: c.width, height: c.height});
  const ink = copy.getContext('2d', {willReadFrequently: true});
  ink.drawImage(c, 0, 0);
  const d = ink.getImageData(Math.round(x0 * k), 0, w, c.height).data;
  const probe = document.body.appendChild(document.createElement('i'));
  probe.style.color = 'var(--hatch)';
  const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
  probe.remove();
  let n = 0;
  for (let i = 0; i < d.length; i += 4) {
    if (d[i + 3] > 80 && Math.abs(d[i] - r) < 50 && Math.abs(d[i + 1] - g) < 50 && Math.abs(d[i + 2] - b) < 50) n++;
  }
  return n / (w * c.height);
"""
ASK = """
  const [path, done] = arguments;
  fetch(path, {headers: {'X-Procfleet-Key': localStorage.getItem('procfleet.key')}}).then((r) => r.json()).then(done, (e) => done(String(e)));
"""


class Activity:
    """Processes that come and go, some with names no program should have."""

    def __init__(self, fleet):
        os.mkdir(fleet.path("bin"))
        for name in (MARKUP, TURNED):
            shutil.copy("/bin/sleep", fleet.path("bin", name))
        scripts = ("while :; do sh -c 'sleep 0.4; exit 3'; sleep 0.05; done", 'while :; do "$1" 1; "$2" 1; done')
        names = [fleet.path("bin", name) for name in (MARKUP, TURNED)]
        self.processes = [subprocess.Popen(["sh", "-c", s, "sh", *names], start_new_session=True) for s in scripts]

    def stop(self):
        for p in self.processes:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def agent(fleet, name):
    return fleet.start("procfleet-agent", "run", "--level", "L1", *fleet.agent_args(name, **FAST), log="agent-%s.log" % name)


def seeded(fleet):
    """Two hosts with some seconds of data; the agent of one was killed in between, so some of it is missing."""
    with open(fleet.path("rules.yaml"), "w") as f:
        f.write(RULES)
    fleet.start_collector(http__refresh="1s", rules__file=fleet.path("rules.yaml"), lab__labels="db-1 rack=3")
    agent(fleet, "db-1")
    first = agent(fleet, "web-1")
    fleet.wait_for("data of both", lambda: all(fleet.hosts().get(h, {}).get("batches", 0) > 4 for h in ("web-1", "db-1")))
    first.kill()
    first.wait()
    time.sleep(3)
    second = agent(fleet, "web-1")
    fleet.wait_for("the loss to be known", lambda: fleet.ask("coverage", "--host", "web-1", expect=None)[0]["lost_ticks"] > 0)
    before = fleet.hosts()["web-1"]["batches"]
    fleet.wait_for("data after it", lambda: fleet.hosts()["web-1"]["batches"] > before + 6)
    return second


class Door:
    """`procfleet console` of one operator; a link for each login."""

    def __init__(self, fleet, who):
        tls = fleet.tls(who)
        env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_EVENTS="127.0.0.1:" + fleet.ports["events"],
                   PROCFLEET_CA=tls["ca"], PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
        self.process = subprocess.Popen([os.path.join(os.environ.get("PROCFLEET_BIN", "build/release/bin"), "procfleet"), "console", "--no-open",
                                         "--listen", "127.0.0.1:0"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=open(fleet.path("console-%s.log" % who), "wb"))
        fleet.processes.append(self.process)
        self.link = self.next()
        self.origin = self.link.split("/#")[0]

    def next(self):
        while True:
            line = self.process.stdout.readline().decode()
            if "#ticket=" in line:
                return line.strip()
            ensure("the console prints a link", line)

    def another(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self.next()


def quiet(b):
    b.wait("the page to have its answers", QUIET)


def go(b, fragment):
    b.driver.execute_async_script("location.hash = arguments[0]; setTimeout(arguments[1], 60)", fragment)  # its event comes later
    quiet(b)


def login(b, door):
    b.open(door.link)
    b.wait("the fleet", "document.body.innerText.includes('db-1')")
    quiet(b)
    check("the ticket is gone from the address", b.js("return location.hash"), "#/")
    check("and is not taken for a view", b.js("return document.querySelector('#unread').checkVisibility()"), False)
    ensure("both hosts are there", "web-1" in b.text("main") and "db-1" in b.text("main"))


def rows_of_the_fleet(b):
    """What fills a row is asked of rows in sight by their ids, of all only where the order needs that."""
    asked = "performance.getEntriesByType('resource').map((e) => decodeURIComponent(e.name)).filter((n) => /v1.(pulse|coverage)/.test(n))"
    b.wait("heat and coverage in each row", "[...document.querySelectorAll('main tbody tr[role=row]')].filter((tr) => "
                                            "tr.querySelector('canvas.strip') && /\\d %/.test(tr.innerText)).length === 2")
    names = b.js("return " + asked)
    ensure("of rows in sight alone", names and all("ids=" in n for n in names), names)
    ensure("what hosts used last is with them", b.js("return [...document.querySelectorAll('main tbody tr[role=row]')].every("
                                                     "(tr) => /B$/.test(tr.children[6].innerText))"), b.text("main"))
    ensure("the footer tells of all hosts", "coverage" in b.text("#foot"), b.text("#foot"))
    for sort, path in (("CHANGE", "pulse"), ("COVER", "coverage")):
        b.js("[...document.querySelectorAll('main th button')].find((e) => e.textContent.startsWith(arguments[0])).click()", sort)
        b.wait("all hosts to be asked for the order by " + sort, asked + ".some((n) => n.includes('%s') && !n.includes('ids='))" % path)
    quiet(b)
    go(b, "#/?group=prefix")
    b.wait("a row for hosts of a prefix, with their heat", "[...document.querySelectorAll('main tbody tr[role=row]')].some((tr) => "
                                                           "tr.innerText.startsWith('web-*') && tr.querySelector('canvas.strip'))")
    go(b, "#/")


def every_view_by_keys(b):
    """Each view alone by its key, and what has to hold of every page."""
    for key, title in VIEWS:
        b.keys(key)
        b.wait("the view " + title, "document.querySelector('nav [aria-current]')?.textContent === '%s'" % title)
        quiet(b)
        b.shot("view-" + title)
        check(title + ": nothing forbidden was tried", b.misdeeds(), [])
        check(title + ": every control has a name", b.unnamed(), [])
        check(title + ": every text has contrast", b.low_contrast(), [])
        check(title + ": Tab reaches every control", b.beyond_tab(), [])
    b.keys("?")
    b.wait("the help", "document.querySelector('dialog[open]')")
    ensure("the help lists keys of the page", "mark hosts and range" in b.text("dialog"))
    b.keys(Keys.ESCAPE)
    b.wait("the help to close", "!document.querySelector('dialog[open]')")


def dialogs(b):
    """The range's and the keys', in light and in dark."""
    for scheme in ("light", "dark"):
        b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for title, opened in (("Range", "document.querySelector('button.range').click()"), ("Keys", "document.querySelector('button.help').click()")):
            b.js(opened)
            b.wait("the dialog " + title, "document.querySelector('dialog[open]')?.ariaLabel === '%s'" % title)
            b.shot("dialog-%s-%s" % (title, scheme))
            check("%s, %s: every control has a name" % (title, scheme), b.unnamed(), [])
            check("%s, %s: every text has contrast" % (title, scheme), b.low_contrast(), [])
            b.keys(Keys.ESCAPE)
            b.wait("it to close", "!document.querySelector('dialog[open]')")
    b.cdp("Emulation.setEmulatedMedia", features=[])


def still(b):
    """Nothing moves by itself for who asked for that."""
    moving = "return [...document.querySelectorAll('*')].filter((e) => { const s = getComputedStyle(e); return s.animationName !== 'none' || " \
             "s.transitionDuration.split(',').some((d) => parseFloat(d) > 0); }).map((e) => e.tagName + '.' + e.className)"
    ensure("the question finds what moves", b.js(moving))
    b.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    for fragment in ("#/", "#/top", "#/timeline", "#/losses"):
        go(b, fragment)
        check("reduced motion: nothing moves in " + fragment, b.js(moving), [])
    b.cdp("Emulation.setEmulatedMedia", features=[])


def unreadable(b):
    go(b, "#/top?t=yesterday&host=db-1")
    ensure("a range that cannot be read is said", "t=yesterday" in b.text("#unread") and "last 15m" in b.text("#unread"), b.text("#unread"))
    go(b, "#/tpo?t=-1m")
    ensure("so is a view", "tpo" in b.text("#unread") and "Fleet" in b.text("#unread"), b.text("#unread"))
    go(b, "#/top?t=-1m&host=db-1")
    check("and no more once it is another", b.js("return document.querySelector('#unread').checkVisibility()"), False)


def asked(fleet):
    """Requests that the collector has answered to consoles so far, by path. The page of metrics may be a second old."""
    for pause in (1.2, 0):
        with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"]) as reply:
            found = re.findall(r'^procfleet_console_requests_total\{path="([^"]*)",[^}]*\} (\d+)', reply.read().decode(), re.M)
        time.sleep(pause)
    sums = {}
    for path, n in found:
        sums[path] = sums.get(path, 0) + int(n)
    return sums


def during(fleet, seconds):
    before = asked(fleet)
    time.sleep(seconds)
    return {path: n - before.get(path, 0) for path, n in asked(fleet).items() if n != before.get(path, 0)}


def tabs(b, fleet):
    """Two windows with the same live events read one stream, the second goes on when the first is gone, and hidden ones ask nothing."""
    newest = "document.querySelector('main tbody tr[role=row]')?.innerText ?? ''"
    live = "#/events?t=-1m&live=2s&host=db-1"
    go(b, live)
    b.wait("events", newest)
    one = during(fleet, 5)
    first = b.driver.current_window_handle
    b.driver.switch_to.new_window("window")
    second = b.driver.current_window_handle
    b.open(b.origin + "/" + live)
    b.wait("events in the second window", newest)
    both = during(fleet, 5)
    locks = b.driver.execute_async_script("navigator.locks.query().then((l) => arguments[0]([l.held.length, l.pending.length]))")
    check("one of two windows reads, the other waits", locks, [1, 1])
    limit = 1.5 * one.get("updates", 0) + 2
    ensure("the server sees one stream (%s, before %s)" % (both.get("updates"), one.get("updates")), both.get("updates", 0) <= limit, (one, both))
    was = b.js("return " + newest)
    b.wait("news in the window that waits", lambda: b.js("return " + newest) != was)
    b.driver.switch_to.window(first)
    b.driver.close()
    b.driver.switch_to.window(second)
    was = b.js("return " + newest)
    b.wait("news after the window that read was closed", lambda: b.js("return " + newest) != was)
    gap(b)
    b.driver.minimize_window()
    b.wait("the page to be hidden", "document.hidden")
    for fragment in (live, "#/?t=-1m&live=2s", "#/h/db-1?t=-1m&live=2s"):
        b.js("location.hash = arguments[0]", fragment)
        time.sleep(0.5)
        quiet(b)  # its first answers
        time.sleep(1.5)
        for _ in range(4):  # what was under way is counted when it ends; a tab that asks asks in each of them
            asked = during(fleet, 5)
            if not asked:
                break
        check("a hidden tab asks nothing: " + fragment, asked, {})
    b.driver.set_window_rect(width=1440, height=900)
    b.wait("the page to be seen again", "!document.hidden")
    quiet(b)


def gap(b):
    """A hole in the sequence of live events is a row; the store is asked for it."""
    go(b, "#/events?t=-1m&live=2s&host=db-1&name=procfleet-*")  # few of them: the row stays in sight
    b.js("const c = new BroadcastChannel('procfleet ' + JSON.stringify({host: 'db-1', name: 'procfleet-*'})); "
         "c.postMessage({type: 'gap', lost: 31}); c.close()")
    row = b.wait("a row for the hole", "document.querySelector('main tbody tr.hole')?.innerText")
    ensure("it says how many", "31 messages" in row, row)
    b.wait("what became of it", "/31 messages (lost|missed)/.test(document.querySelector('main tbody tr.hole')?.innerText)")


def dark_and_forced(b):
    for features, name in (([{"name": "prefers-color-scheme", "value": "dark"}], "dark"), ([{"name": "forced-colors", "value": "active"}], "forced")):
        b.cdp("Emulation.setEmulatedMedia", features=features)
        for key, title in VIEWS:
            b.keys(key)
            quiet(b)
            b.shot("%s-%s" % (name, title))
            check("%s, %s: every text has contrast" % (title, name), b.low_contrast(), [])
    b.cdp("Emulation.setEmulatedMedia", features=[])


def zoomed(b):
    """200 %: half as many pixels of the page across; nothing has to be scrolled sideways."""
    b.cdp("Emulation.setDeviceMetricsOverride", width=640, height=450, deviceScaleFactor=2, mobile=False)
    for key, title in VIEWS:
        b.keys(key)
        quiet(b)
        b.shot("zoom-" + title)
        check("%s at 200 %%: nothing sticks out" % title,
              b.js("return Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)"), 0)
    b.cdp("Emulation.clearDeviceMetricsOverride")


def losses_are_hatched(b):
    """Of the agent that was killed: hatched where coverage says so, nowhere else."""
    go(b, "#/timeline")
    ask = "/api/v1/lifetimes?host=web-1&max=10&"
    answer = b.driver.execute_async_script(ASK, ask + "last=1m")
    since, until = int(answer["since_ns"]) // 10**9, int(answer["until_ns"]) // 10**9  # a range that stays, and whole seconds
    form = lambda s, f: time.strftime(f, time.gmtime(s))  # noqa: E731
    go(b, "#/timeline?host=web-1&group=host&t=%s..%s" % (form(since, "%Y%m%dT%H%M%SZ"), form(until, "%Y%m%dT%H%M%SZ")))
    b.wait("bars", "document.querySelector('.lanes canvas')")
    time.sleep(0.3)  # the frame in which they are drawn
    b.shot("hatched")
    answer = b.driver.execute_async_script(ASK, ask + "since=%s&until=%s" % (form(since, "%Y-%m-%dT%H:%M:%SZ"), form(until, "%Y-%m-%dT%H:%M:%SZ")))
    coverage = answer["coverage"]["hosts"][0]
    ensure("there is a loss", coverage["spans"], coverage)
    width = b.js("return document.querySelector('.lanes-sizer canvas').getBoundingClientRect().width")
    x = lambda ns: GUTTER + (int(ns) / 1e9 - since) / (until - since) * (width - GUTTER)  # noqa: E731
    spans = sorted((x(s["first_ns"]), x(s["last_ns"])) for s in coverage["spans"])
    first, last = max(spans, key=lambda s: s[1] - s[0])
    for canvas in (".lanes-sizer canvas", ".lanes > canvas"):
        inside = b.js(HATCHED, canvas, first + 1, last - 1)
        ensure("what was lost is hatched in %s (%.3f of its pixels)" % (canvas, inside), inside > 0.02, (spans, width))
    ends = [x(answer["hosts"][0]["first_ns"])] + [s[1] for s in spans]
    start, end = max(zip(ends, [s[0] for s in spans] + [width]), key=lambda s: s[1] - s[0])
    beside = b.js(HATCHED, ".lanes > canvas", start + 4, end - 4)  # the bars below have colours of their own
    ensure("what came is not (%.4f)" % beside, beside < inside / 20, (beside, start, end, spans))
    ensure("the answer says that it is partial", b.js("return !document.querySelector('.bar.partial').hidden"))
    ensure("the footer says what was lost", "samples lost" in b.text("#foot"), b.text("#foot"))
    go(b, "#/losses?t=-5m&sel=web-1")
    b.wait("the ledger", "document.querySelector('.losses')")
    ensure("the ledger has the reason and what to do", "agent killed" in b.text("main") and "See the logs" in b.text("main"), b.text("main"))


def timeline(b):
    """A bar where a process lived; the same one in table, panel and link; keys."""
    go(b, "#/timeline?t=-1m&host=db-1&name=*img*")
    b.wait("what ran", "/^[1-9]\\d* started/.test(document.querySelector('.panel .note').innerText)")
    go(b, "#/timeline?t=-1m&host=db-1&name=sl*")
    b.js("document.querySelector('.lanes').focus()")
    b.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    b.wait("a selection", "location.hash.includes('sel=db-1')")
    b.wait("its panel", "document.querySelector('.chosen .facts')")
    quiet(b)
    facts = b.text(".chosen .facts")
    ensure("the panel has start, life and parent", all(w in facts for w in ("start", "life", "exit code")), facts)
    b.js("document.querySelector('details').open = true")
    b.wait("the same row in the table", "document.querySelector('details tr[aria-selected=true]')")
    chosen = b.js("return location.hash")
    b.driver.refresh()
    b.wait("the page again", "document.querySelector('.chosen .facts')")
    quiet(b)
    check("a link shows the same after a reload", (b.js("return location.hash"), b.text(".chosen .facts")), (chosen, facts))
    b.js("document.querySelector('.lanes').focus()")
    b.keys(Keys.ENTER)
    b.wait("the process by itself", "location.hash.startsWith('#/p/db-1/') && " + QUIET)
    b.shot("process")
    check("the process: nothing was refused", (b.misdeeds(), b.js("return document.querySelectorAll('.block.failed').length")), ([], 0))
    b.js("history.back()")
    b.wait("the timeline again", "location.hash.startsWith('#/timeline') && document.querySelector('.chosen .facts')")
    quiet(b)
    b.keys("f")
    b.wait("fit to the selection", "/t=\\d{8}T/.test(location.hash)")
    quiet(b)
    b.keys("0")
    b.wait("the whole range again", "location.hash.includes('t=-1m')")
    quiet(b)
    b.keys("g")
    b.wait("the tree", "location.hash.includes('group=tree')")
    lanes = b.find(".lanes")
    b.drag(lanes, 400, 700, 30)
    b.wait("a brush to zoom", "/t=\\d{8}T/.test(location.hash)")
    quiet(b)
    check("keys and brush: nothing forbidden was tried", b.misdeeds(), [])


def brush_and_table(b):
    go(b, "#/top?t=-1m&host=db-1")
    b.wait("a table", "document.querySelectorAll('main tbody tr[role=row]').length > 2")
    row = b.js("const tr = document.querySelectorAll('main tbody tr[role=row]')[1]; tr.click(); return tr.innerText")
    b.wait("the row's selection in the link", "/sel=./.test(location.hash)")
    ensure("the row is selected", b.js("return document.querySelectorAll('tr[aria-selected=true]').length") == 1, row)
    plot = b.find(".plot")
    b.drag(plot, 300, 800, 60)
    b.wait("the range that was brushed", "/t=\\d{8}T\\d{6}/.test(location.hash)")
    quiet(b)
    ensure("the table is asked anew for it", b.js("return document.querySelectorAll('main tbody tr[role=row]').length") > 0)


def compared(b):
    """A mark by one key, the comparison with it by another; both ranges in the link."""
    go(b, "#/top?t=-40s&host=db-1")
    b.keys(".")
    go(b, "#/top?t=-20s&host=web-1")
    b.keys("d")
    b.wait("the comparison", "location.hash.startsWith('#/diff') && " + QUIET)
    b.wait("what differs", "document.querySelectorAll('main tbody tr[role=row]').length > 2")
    b.shot("compared")
    ensure("both sides say what arrived", b.text(".sides").count("coverage") == 2, b.text(".sides"))
    ensure("both are in the link", "a=db-1" in b.js("return location.hash") and "b=web-1" in b.js("return location.hash"))
    go(b, b.js("return location.hash") + "&group=image-user")
    b.wait("an image by each of its users", "[...document.querySelectorAll('main tbody tr[role=row]')].some((tr) => /^[^\\t,]+, [^\\t]/.test(tr.innerText))")
    check("comparing: nothing forbidden was tried", b.misdeeds(), [])


def hostile(b):
    for name, seen in (("*img*", MARKUP[:12]), ("gpj*", "\\u202e")):
        for view in ("top", "timeline", "events"):
            go(b, "#/%s?t=-10m&host=db-1&name=%s" % (view, name))
            b.js("for (const d of document.querySelectorAll('details')) d.open = true")
            b.wait("%s as text in %s" % (seen, view), lambda: seen in b.text("main"))  # noqa: B023
            check("no element came of a name", b.js("return document.querySelectorAll('main img').length"), 0)
            ensure("no text turns its surroundings", "\u202e" not in b.text("body"))
    go(b, "#/events?t=-10m&host=db-1")
    check("hostile names: nothing forbidden was tried", b.misdeeds(), [])
    ensure("no script of a name ran", b.js("return document.title") != "1")


def rules(b):
    """What fires is shown on three views, with names as text."""
    go(b, "#/rules")
    b.wait("the rule to fire", lambda: "firing" in b.text("main tbody"), 60)
    ensure("its subject is text", MARKUP[:12] in b.text("main tbody"))
    check("no element came of it", b.js("return document.querySelectorAll('main img').length"), 0)
    ensure("what is well is not shown", "quiet" not in b.text("main tbody"))
    b.keys("a")
    b.wait("until it is asked for", lambda: "quiet" in b.text("main tbody"))
    b.keys("a")
    go(b, "#/h/db-1")
    b.wait("the host says what fires there", lambda: "markup" in b.text("main ul.notes"))
    ensure("and what it is like", "rack" in b.text("main .facts") and "class" in b.text("main .facts"), b.text("main .facts"))
    go(b, "#/")
    b.wait("the fleet says how many fire", lambda: "firing" in b.text("main .facts"))
    check("rules: nothing forbidden was tried", b.misdeeds(), [])


def empty(b):
    go(b, "#/timeline?t=-1m&name=no-such-*")
    b.wait("words about the filter", "document.querySelector('.block.empty')?.innerText.includes('No process')")
    b.js("[...document.querySelectorAll('.block.empty button')].find((e) => e.textContent === 'Show all names').click()")
    b.wait("what there is", "!document.querySelector('.block.empty') && !location.hash.includes('no-such')")
    quiet(b)


def stale_and_back(b, fleet):
    go(b, "#/timeline?t=-1m&live=2s&host=db-1")
    fleet.collector.kill()
    fleet.collector.wait()
    b.wait("the page to say that it is stale", "document.querySelector('.panel[data-state=stale] .bar.stale')", 40)
    b.shot("stale")
    ensure("what was drawn stays, with its age", b.js("return document.querySelector('.lanes canvas') !== null") and "old." in b.text(".bar.stale"))
    b.misdeeds()  # the console of the browser tells of every answer that failed
    fleet.start_collector()
    b.wait("the page to go on by itself", "document.querySelector('.panel')?.dataset.state !== 'stale'", 60)
    b.errors = []
    go(b, "#/events?t=-1m&live=2s&host=db-1")
    rows = "document.querySelectorAll('main tbody tr[role=row]').length"
    b.wait("events that come", rows + " > 0", 40)
    newest = b.js("return document.querySelector('main tbody tr[role=row]').innerText")
    b.wait("newer ones", lambda: b.js("return document.querySelector('main tbody tr[role=row]').innerText") != newest, 40)


def scope(fleet, directory):
    fleet.issue("query", "part", "pki", None, "--scope", "web-*")
    door = Door(fleet, "part")
    b = Browser(directory)
    try:
        b.open(door.link)
        b.wait("its host", "document.body.innerText.includes('web-1')")
        quiet(b)
        ensure("no other host is shown", "db-1" not in b.text(), b.text())
        go(b, "#/timeline?t=-1m&host=db-1")
        ensure("nor by a link", "db-1" not in b.text(".lanes-tip") and not b.js("return document.querySelector('.chosen .facts')"))
        ensure("the scope is said", "web-*" in b.text("#foot"), b.text("#foot"))
        b.open("about:blank")
        b.open(door.link)
        b.wait("a link to work only once", "document.body.innerText.includes('Not logged in')")
    finally:
        b.close()


def main():
    began = time.monotonic()
    with Fleet() as fleet:
        activity = Activity(fleet)
        b = None
        try:
            seeded(fleet)
            door = Door(fleet, "operator")
            b = Browser(fleet.path("browser"))
            b.origin = door.origin
            login(b, door)
            rows_of_the_fleet(b)
            every_view_by_keys(b)
            dialogs(b)
            still(b)
            unreadable(b)
            losses_are_hatched(b)
            timeline(b)
            brush_and_table(b)
            compared(b)
            hostile(b)
            rules(b)
            empty(b)
            dark_and_forced(b)
            zoomed(b)
            scope(fleet, fleet.path("part"))
            tabs(b, fleet)
            stale_and_back(b, fleet)
            check("no request left the origin", b.strangers(door.origin), [])
        finally:
            activity.stop()
            if b:
                b.close()
    print("%.0f s" % (time.monotonic() - began))


if __name__ == "__main__":
    main()
