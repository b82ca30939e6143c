"""The dashboards of docs/grafana: every query of them is asked of a live collector, and answers what its panel shows."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, ROOT, Fleet, check, ensure  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"


def dashboard(name):
    with open(os.path.join(ROOT, "docs", "grafana", name)) as f:
        board = json.load(f)
    ensure("%s has panels" % name, board["panels"])
    ids = [p["id"] for p in board["panels"]]
    check("each panel of %s has an id of its own" % name, len(set(ids)), len(ids))
    places = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in board["panels"]
              for dx in range(p["gridPos"]["w"]) for dy in range(p["gridPos"]["h"])]
    check("and a place of its own", len(set(places)), len(places))
    return board


def start_console(fleet):
    """`procfleet console` on a free port; its address."""
    tokens = fleet.path("tokens")
    with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write("grafana %s\n" % TOKEN)
    tls = fleet.tls("operator")
    env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
    out = open(fleet.path("console.out"), "wb")
    fleet.processes.append(subprocess.Popen(
        [os.path.join(BIN, "procfleet"), "console", "--no-open", "--listen", "127.0.0.1:0", "--token-file", tokens],
        stdin=subprocess.PIPE, stdout=out, stderr=out, env=env))
    found = fleet.wait_for("the console's link", lambda: re.search(r"http://127\.0\.0\.1:\d+", fleet.log("console.out")))
    return found.group(0)


def fill_in(url):
    """What Grafana puts in the place of its variables: the last five minutes, all hosts."""
    form, now = "%Y-%m-%dT%H:%M:%S.000Z", time.time()
    values = {"${__from:date:iso}": time.strftime(form, time.gmtime(now - 300)),
              "${__to:date:iso}": time.strftime(form, time.gmtime(now)), "${host}": "*"}
    for name, value in values.items():
        url = url.replace(name, urllib.parse.quote(value, safe=":"))
    ensure("no other variable", "$" not in url, url)
    return url


def get(address, path):
    request = urllib.request.Request(address + path, headers={"Authorization": "Bearer " + TOKEN})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as e:
        print("FAILED: %s: %d %s" % (path, e.code, e.read().decode()))
        sys.exit(1)


def rows_of(answer, root):
    for word in root.split("."):
        answer = answer[word]
    return answer if isinstance(answer, list) else [answer]


def api(address):
    for panel in dashboard("api.json")["panels"]:
        for target in panel["targets"]:
            rows = rows_of(get(address, fill_in(target["url"])), target["root_selector"])
            ensure("%s has rows" % panel["title"], rows)
            known = set().union(*(row.keys() for row in rows))
            asked = {c["selector"] for c in target["columns"]}
            ensure("and every column", asked <= known, sorted(asked - known))
            times = [c["selector"] for c in target["columns"] if c["type"].startswith("timestamp")]
            ensure("whose times are of today", all(abs(row[t] / 1e3 - time.time()) < 86400 for row in rows for t in times))


def prometheus(fleet):
    with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"], timeout=30) as reply:
        text = reply.read().decode()
    samples = {}
    for name, labels in re.findall(r"^(procfleet_\w+)(?:\{(.*)\})? ", text, re.M):
        samples.setdefault(name, set()).update(re.findall(r"(\w+)=\"", labels))
    for panel in dashboard("prometheus.json")["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"procfleet_\w+", target["expr"])
            ensure("%s: %s is there" % (panel["title"], target["expr"]), names and all(n in samples for n in names), names)
            labels = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            ensure("and its labels", all(label in samples[n] for label in labels for n in names), labels)
            counters = [n for n in names if n.endswith("_total")]
            ensure("counters are rates", all("rate(%s" % n in target["expr"] for n in counters), target["expr"])


with Fleet() as the_fleet:
    the_fleet.start_collector()
    the_fleet.start_agent("live", batch__max_age="500ms")
    the_fleet.wait_for("the first data", lambda: the_fleet.hosts().get("live"))
    the_fleet.wait_for("CPU of two samples", lambda: the_fleet.ask("top", "--by", "cpu_percent", expect=None))
    subprocess.run(["sh", "-c", "exit 3"], check=False)
    the_fleet.wait_for("events", lambda: the_fleet.ask("events", "--since", "5m", expect=None))
    api(start_console(the_fleet))
    the_fleet.wait_for("figures of hosts", lambda: b"procfleet_host_cpu_cores{" in urllib.request.urlopen(
        "http://127.0.0.1:%s/metrics" % the_fleet.ports["http"]).read())
    prometheus(the_fleet)
