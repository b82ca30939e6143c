"""docs/grafana/clickhouse.json on the tables of a live fleet: every panel's query and every variable has rows, with the columns that its
kind of panel needs, and what three of them show is what the collector answers.

The macros are expanded as the plugin documents them; rendering is Grafana's own and is not tried. `--url URL` asks a server that is
there, whose database `procfleet` has data of the last hour, instead.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from chfleet import Agent, ChFleet, check, ensure, lab

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTERVAL_S = 10
UNITS = {"s", "short", "bytes", "Bps", None}


class Board:
    def __init__(self, ask):
        """ask(sql): the rows of the answer as dicts."""
        with open(os.path.join(ROOT, "docs", "grafana", "clickhouse.json")) as f:
            self.board = json.load(f)
        self.ask, self.values, self.asked = ask, {}, set()
        self.until = int(time.time()) + 1

    def expand(self, sql):
        def value(match):
            name, _, form = match.group(1).partition(":")
            self.asked.add(name)
            if name not in self.values:
                raise AssertionError("variable %s is not defined: %s" % (name, sql))
            quoted = ["'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'" for v in self.values[name]]
            return ",".join(quoted if form == "singlequote" else self.values[name])

        sql = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 >= toDateTime(%d) AND \1 <= toDateTime(%d)" % (self.until - 3600, self.until), sql)
        sql = re.sub(r"\$\{(\w+(?::\w+)?)\}", value, sql.replace("$__interval_s", str(INTERVAL_S)))
        ensure("nothing is left to expand", "$" not in sql, sql)
        return sql

    def is_sound(self):
        panels = self.board["panels"]
        ids = [p["id"] for p in panels]
        check("each panel has an id of its own", len(set(ids)), len(ids))
        places = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in panels for dx in range(p["gridPos"]["w"])
                  for dy in range(p["gridPos"]["h"])]
        check("and a place of its own", (len(set(places)), max(x for x, _ in places)), (len(places), 23))
        check("units are Grafana's", {p["fieldConfig"]["defaults"].get("unit") for p in panels} - UNITS, set())

    def variables(self):
        for v in self.board["templating"]["list"]:
            if v["type"] != "query":
                self.values[v["name"]] = ["clickhouse"]
                continue
            check("%s: one query, written twice" % v["name"], v["query"]["rawSql"], v["definition"])
            rows = self.ask(self.expand(v["definition"]))
            ensure("variable %s has values" % v["name"], rows and all(len(r) == 1 for r in rows), rows[:3])
            self.values[v["name"]] = [next(iter(r.values())) for r in rows]

    def panels(self):
        """Every query. Returns the rows by title."""
        out = {}
        for p in self.board["panels"]:
            self.expand(p["title"])
            for t in p["targets"]:
                rows = self.ask(self.expand(t["rawSql"]))
                ensure("%s has rows" % p["title"], rows)
                columns = rows[0]
                if p["type"] == "timeseries":
                    check("%s begins with the time, and is asked as a series" % p["title"], (next(iter(columns)), t["queryType"], t["format"]),
                          ("t", "timeseries", 0))
                    check("in its order", [r["t"] for r in rows], sorted(r["t"] for r in rows))
                else:
                    check("%s is asked as a table" % p["title"], (t["queryType"], t["format"]), ("table", 1))
                numbers = [k for k, v in columns.items() if isinstance(v, (int, float))]
                ensure("%s has numbers" % p["title"], numbers or p["title"] == "Collectors", columns)
                out[p["title"]] = rows
        unused = set(self.values) - self.asked - {"source"}
        check("every variable is used", unused, set())
        return out


def asker(url):
    def ask(sql):
        query = urllib.parse.urlencode({"database": "procfleet", "output_format_json_quote_64bit_integers": 0})
        try:
            with urllib.request.urlopen("%s/?%s" % (url, query), (sql + " FORMAT JSON").encode(), timeout=60) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError("%s\n%s" % (sql, e.read().decode(errors="replace")[:500])) from None
    return ask


def figures(fleet, rows):
    """Three panels beside the command line."""
    known = fleet.hosts()
    check("hosts", rows["Hosts with data"][0]["hosts"], len(known))
    check("batches", sum(r["batches"] for r in rows["Batches, and losses that hosts told of"]), sum(h["batches"] for h in known.values()))
    # until: the events of a last batch lie behind the newest stamp when the clock's estimate was set back with it
    told = fleet.ask("events", "--since", "1h", "--until", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600)), "-n", "100000",
                     expect=None)
    for panel, kind in (("starts", "process_start"), ("ends", "process_stop")):
        check(panel, sum(r[panel] for r in rows["Starts and ends"]), sum(e["kind"] == kind for e in told))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--url")
    url = options.parse_args().url
    if url:
        board = Board(asker(url))
        board.is_sound()
        board.variables()
        board.panels()
        return 0
    with lab.opened() as ch, ChFleet() as fleet:
        fleet.feed(ch)
        agents = [Agent(fleet, seed) for seed in (1, 2)]
        live = fleet.start_agent("live", batch__max_age="300ms")
        fleet.wait_for("the live host", lambda: "live" in fleet.hosts())
        for _ in range(3):
            subprocess.run(["sh", "-c", "sleep 0.2; exit 3"], check=False)
        fleet.wait_for("its failures", lambda: [e for e in fleet.ask("events", "--host", "live", "--since", "1h", "-n", "10000", expect=None)
                                                if e["kind"] == "process_stop" and e.get("exit_code") == 3])
        fleet.stop(live)
        for a in agents:
            a.stop()
        for a in agents:
            a.wait()
        batches = sum(h["batches"] for h in fleet.hosts().values())
        fleet.wait_for("all of it in ClickHouse", lambda: ch.server.number(
            "SELECT uniqExact(host_id, stream, seq) FROM batch WHERE kind = 3") >= batches)
        board = Board(asker(ch.server.url))
        board.is_sound()
        board.variables()
        figures(fleet, board.panels())
    return 0


if __name__ == "__main__":
    sys.exit(main())
