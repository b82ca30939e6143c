#!/usr/bin/env python3
"""The console's page keeps no memory: its heap, nodes and listeners in live mode, and after many changes of the view.

PROCFLEET_SECONDS (60) is how long it is live; the goal of the long form, half an hour, is at most 60 MB and 1 MB an hour more.
"""

import os
import time

import browser

browser.need()

from browser import Browser  # noqa: E402
from e2e_console_browser import VIEWS, Door, agent, go, login, quiet  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402

SECONDS = float(os.environ.get("PROCFLEET_SECONDS", "60"))
MB = 1 << 20
MOST = 60 * MB
HOURLY = MB
NOISE = MB  # names that were never seen before, compiled code
ROUNDS = 8


def memory(b):
    """What is still used after a collection: bytes, nodes, listeners."""
    for _ in range(2):
        b.cdp("HeapProfiler.collectGarbage")
    counters = b.cdp("Memory.getDOMCounters")
    return b.cdp("Runtime.getHeapUsage")["usedSize"], counters["nodes"], counters["jsEventListeners"]


def slope(points):
    """Bytes an hour of the line through (seconds, bytes)."""
    n, mx, my = len(points), sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    return 3600 * sum((x - mx) * (y - my) for x, y in points) / (sum((x - mx) ** 2 for x, _ in points) or n)


def watched(b, seconds):
    """Five plots and a table, asked anew every two seconds: (seconds, bytes) of the heap, and the nodes."""
    go(b, "#/h/db-1?t=-1m&live=2s")
    time.sleep(max(min(20, seconds / 3), seconds / 10))  # until what is compiled and kept is there
    b.cdp("HeapProfiler.enable")
    began, points, nodes = time.monotonic(), [], []
    while time.monotonic() - began < seconds:
        heap, n, _ = memory(b)
        points.append((time.monotonic() - began, heap))
        nodes.append(n)
        time.sleep(max(2, seconds / 60))
    return points, nodes


def live(b):
    points, nodes = watched(b, SECONDS)
    grown = points[-1][1] - points[0][1]
    hourly = slope(points)
    print("live %.0f s: heap %.2f to %.2f MB, most %.2f MB (goal 60), slope %.2f MB/h (goal 1 in half an hour), nodes %d to %d" % (
        SECONDS, points[0][1] / MB, points[-1][1] / MB, max(p[1] for p in points) / MB, hourly / MB, nodes[0], nodes[-1]))
    ensure("the heap is small", max(p[1] for p in points) <= MOST, points)
    if SECONDS >= 1200:
        ensure("and does not grow by more than 1 MB an hour", hourly <= HOURLY, points)
    else:
        ensure("and does not grow from step to step", grown <= NOISE, points)
    ensure("neither do the nodes", nodes[-1] <= 1.5 * max(nodes[:3]) + 500, nodes)


def views(b):
    """Whatever a view made ends with it."""
    def around():
        for key, title in VIEWS:
            b.keys(key)
            b.wait("the view " + title, "document.querySelector('nav [aria-current]')?.textContent === '%s'" % title)
            quiet(b)
    go(b, "#/top?t=-1m&host=db-1")
    for _ in range(2):
        around()
    first = memory(b)
    for _ in range(ROUNDS):
        around()
    last = memory(b)
    print("%d times all views: heap %.2f to %.2f MB, nodes %d to %d, listeners %d to %d" % (
        ROUNDS, first[0] / MB, last[0] / MB, first[1], last[1], first[2], last[2]))
    ensure("no view leaves its data", last[0] - first[0] <= NOISE + ROUNDS * MB / 16, (first, last))
    ensure("nor its nodes", last[1] <= 1.5 * first[1] + 1000, (first, last))
    ensure("nor its listeners", last[2] <= 1.5 * first[2] + 100, (first, last))


def main():
    with Fleet() as fleet:
        fleet.start_collector()
        agent(fleet, "db-1")
        agent(fleet, "web-1")
        fleet.wait_for("data of both", lambda: all(fleet.hosts().get(h, {}).get("batches", 0) > 4 for h in ("web-1", "db-1")))
        door = Door(fleet, "operator")
        b = Browser(fleet.path("browser"), logs=False)
        try:
            login(b, door)
            views(b)
            live(b)
        finally:
            b.close()


if __name__ == "__main__":
    main()
