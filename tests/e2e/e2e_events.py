"""Events of chosen providers, from recordings to who asks: value for value what `procfleet-etl events` shows of the same
file, at `events`, at a durable `tail` and after the collector was killed while they came; without secrets; and a provider
that is too loud costs the others nothing."""

import collections
import json
import os
import re
import subprocess
import sys
import time

from fleet import BIN, PATIENCE, Fleet, check, corpus, ensure, read_json

# TraceLogging, EventSource (manifests in the stream), and what a merging tool described.
TRACES = {
    "amsi": ("AMSITrace.etl", "AmsiTrace"),
    "sih": ("SIH.20230422.034724.362.1.etl", "SIHTraceLogging"),
    "single": ("SelfDescribingSingleEvent.etl", "MySource"),
    "waas": ("waasmedic.20251005_113019_195.etl", "Microsoft.Windows.WaaSMedic.*"),
    "solar": ("primitive-types.etl", "solar_system"),
    "bond": ("tx-BondEtwSample.etl.xz", "MSOpenTech-Tx-BinaryEventSource"),
    "perfview": ("gc-dynamic-events.etl", "PerfView"),
    "http": ("tx-HTTP_Server.etl", "Microsoft-Windows-HttpService"),  # by the tables of the program
    "logger": ("perfview-win81-x86.etl", "Company-*"),
}
ANY = {"events.rate": "0", "events.host_rate": "0", "events.host_bytes": "0"}
OLD = {k: "87600h" for k in ("accept_age", "retention__1min__age", "retention__1h__age", "retention__events__age",
                               "retention__raw__age", "retention__10s__age", "retention__provider__age")}
LOUD = "gc-dynamic-events.etl"


def plain(row):
    """What both programs tell of an event; what is absent is 0 or nothing."""
    return json.dumps([str(row["time"]), row.get("provider", ""), row["guid"], row.get("id", 0), row["version"], row["level"],
                       row.get("task", ""), row.get("event", ""), row.get("tid", 0), row.get("fields", {})], sort_keys=True)


def shown(path, provider):
    """As the tool for recordings has them: those with values, in one piece."""
    out = subprocess.run([os.path.join(BIN, "procfleet-etl"), "events", path, "--provider", provider, "--format", "jsonl"],
                         capture_output=True, check=True, timeout=120).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    rows = [r for r in rows if r["kind"] == "manifest" and "fields" in r and "damaged" not in r and r["id"] != 65534]
    for r in rows:
        r["tid"] = r.get("header_tid", r.get("tid", 0))
    return rows


def utc_ns(text):
    """ "2026-01-01T00:00:00.000000100Z" """
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = int(__import__("calendar").timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")))
    return seconds * 10**9 + int((rest + "0" * 9)[:9])


def is_recent(rows):
    """Whether a collector may keep them with their own times: ten years at most. Else they are played as if now."""
    return rows[0]["time"] > time.strftime("%Y", time.gmtime(time.time() - 8 * 365 * 86400))


def timeless(value):
    """Times inside the values of a recording that is played as if now are those of now."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items()}
    if isinstance(value, list):
        return [timeless(v) for v in value]
    return "time" if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", value) else value


def since_first(rows):
    first = min(r["time"] for r in rows)
    return [dict(r, time=r["time"] - first, fields=timeless(r.get("fields", {}))) for r in rows]


def compare(what, got, want):
    """Rows that lost a secret, or did not fit, are compared without their values."""
    recent = is_recent(want)
    want = [dict(r, time=utc_ns(r["time"])) for r in want]
    got = [dict(r, time=int(r["time"])) for r in got]
    ensure("%s: there are events" % what, got and want)
    if not recent:
        got, want = since_first(got), since_first(want)
    touched = sum(1 for r in got if r.get("redacted") or r.get("cut"))
    head = lambda rows: collections.Counter(plain(dict(r, fields={})) for r in rows)  # noqa: E731
    check("%s: which events" % what, head(got), head(want))
    whole = collections.Counter(plain(r) for r in got if not (r.get("redacted") or r.get("cut")))
    lacking = whole - collections.Counter(plain(r) for r in want)
    check("%s: values that nobody wrote" % what, dict(lacking), {})
    ensure("%s: most came untouched" % what, touched * 4 <= len(got), touched)


def asked(fleet, name, provider, *more):
    return fleet.ask("events", "--host", name, "--provider", provider, "-n", "100000", "--since", "2000-01-01T00:00:00Z",
                     *more, expect=None)


def replay(fleet, name, file, provider, *more, **settings):
    conf = {"events__providers": provider}
    conf.update({k.replace(".", "__"): v for k, v in dict(ANY, **settings).items()})
    if is_recent(shown(corpus("public/" + file), provider)):
        more += ("--time", "original")
    return fleet.replay(name, corpus("public/" + file), *more, **conf)


def all_of_them(fleet, when):
    for name, (file, provider) in TRACES.items():
        compare("%s, %s" % (name, when), asked(fleet, name, provider), shown(corpus("public/" + file), provider))


def filters(fleet):
    rows = asked(fleet, "logger", "Company-*")
    by = collections.Counter((r["provider"], r.get("event") or r.get("task")) for r in rows)
    (provider, event), n = by.most_common(1)[0]
    check("by provider and event's name", len(asked(fleet, "logger", provider, "--event", event)), n)
    one = rows[0]
    check("by GUID and id", len(asked(fleet, "logger", one["guid"], "--event", str(one["id"]))),
          sum(1 for r in rows if (r["guid"], r["id"]) == (one["guid"], one["id"])))
    values = {host: asked(fleet, host, "*") for host in TRACES}
    host, name, value = next((h, k, v) for h, found in values.items() for r in found for k, v in r["fields"].items()
                             if isinstance(v, int) and not isinstance(v, bool) and v > 0)
    check("by an expression on values", len(asked(fleet, host, "*", "--where", "field.%s == %d and id >= 0" % (name, value))),
          sum(1 for r in values[host] if r["fields"].get(name) == value))
    host, name, value = next((h, k, v) for h, found in values.items() for r in found for k, v in r["fields"].items()
                             if isinstance(v, str) and v.isalnum())
    check("by a pattern on values", len(asked(fleet, host, "*", "--where", 'field.%s ~ "%s*"' % (name, value[:-1]))),
          sum(1 for r in values[host] if str(r["fields"].get(name)).lower().startswith(value[:-1].lower())))
    fleet.cli("events", "--where", "field.x ==", expect=2)
    check("by a name that nobody has", asked(fleet, "logger", "no-such-*"), [])
    kinds = {r["kind"] for r in fleet.ask("events", "--host", "logger", "-n", "1000", "--since", "2000-01-01T00:00:00Z",
                                          expect=None)}
    ensure("who does not ask for them does not get them", "provider" not in kinds, kinds)
    small = asked(fleet, "logger", "Company-*", "--kind", "provider")
    check("with its kind", len(small), len(rows))
    check("by its kind and an expression", len(fleet.ask("events", "--host", "logger", "--kind", "provider", "-n", "100000", "--since",
          "2000-01-01T00:00:00Z", "--where", 'provider ~ "Company-*"', expect=None)), len(rows))


def meant(fleet):
    """What etw.providers means of a provider: a recording holds all, as a system that refuses every filter tells all."""
    name, (file, provider) = "meant", TRACES["solar"]
    rows = [r for r in shown(corpus("public/" + file), provider) if r.get("header_pid", r.get("pid"))]
    pid_of = lambda r: r.get("header_pid", r.get("pid"))  # noqa: E731
    one, key, value = next((r, k, v) for r in rows for k, v in r["fields"].items() if type(v) is int or isinstance(v, str) and v.isalnum())
    same = [r for r in rows if r["guid"] == one["guid"]]
    for words, want in (("pid=%d" % pid_of(one), [r for r in same if pid_of(r) == pid_of(one)]),
                        ("pid=%d" % (pid_of(one) + 4), [r for r in same if pid_of(r) == pid_of(one) + 4]),
                        ("#%d" % (one["id"] + 1), [r for r in same if r["id"] == one["id"] + 1]),
                        ("#%d where=%s=%s" % (one["id"], key, value), [r for r in same if (r["id"], r["fields"].get(key)) == (one["id"], value)])):
        name += "x"
        text = one["guid"] + ("" if words[0] == "#" else " ") + words
        replay(fleet, name, file, "{%s}" % one["guid"], **{"etw.providers": text})
        check("with %s" % words, len(asked(fleet, name, "*")), len(want))
    name, (file, provider) = "meant", TRACES["perfview"]
    rows = shown(corpus("public/" + file), provider)
    for exe, n in (("x.exe+perfview.exe", len(rows)), ("x.exe", 0)):
        replay(fleet, name + str(n), file, provider, **{"etw.providers": rows[0]["guid"] + " exe=" + exe})
        check("in %s" % exe, len(asked(fleet, name + str(n), provider)), n)


def durable(fleet, provider, want):
    """From the journal, through a subscriber that is killed, each once."""
    state, out, got = fleet.path("tail-state"), fleet.path("tail.jsonl"), []
    tls = fleet.tls("subscriber")
    env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"], XDG_STATE_HOME=state)
    args = [os.path.join(BIN, "procfleet"), "tail", "--durable", "events", "--from-oldest", "--provider", provider,
            "--where", 'host == "logger" and level >= 0', "--format", "json"]
    for limit in ("7", "50", None):
        with open(out, "wb") as f:
            tail = subprocess.Popen(args + (["-n", limit] if limit else []), stdout=f, stderr=subprocess.DEVNULL, env=env)
            fleet.processes.append(tail)
            if limit:
                tail.wait(timeout=PATIENCE)
            else:
                fleet.wait_for("all events at the tail", lambda: len(got) + sum(1 for _ in open(out)) >= len(want))
                time.sleep(0.5)
                tail.kill()
                tail.wait()
        got += [read_json(line) for line in open(out, encoding="utf-8") if line.endswith("\n")]
    compare("durable tail", got, want)


def secrets(fleet):
    """What must not leave is in no file of the collector and in no answer; the agent shows what it sends."""
    name, (file, provider) = "secret", TRACES["waas"]
    rows = shown(corpus("public/" + file), provider)
    field = collections.Counter(k for r in rows for k, v in r["fields"].items() if isinstance(v, str) and len(v) > 3)
    field = field.most_common(1)[0][0]
    texts = sorted({r["fields"][field] for r in rows if isinstance(r["fields"].get(field), str)}, key=len)
    replay(fleet, name, file, provider, **{"privacy.redact_names": field})
    got = asked(fleet, name, provider)
    check("events of %s" % name, len(got), len(rows))
    ensure("each value of %s is hidden" % field, all(r["fields"][field] == "***" for r in got if field in r["fields"]))
    ensure("and the rows say so", all(r.get("redacted") for r in got if field in r["fields"]))
    replay(fleet, "dropped", file, provider, **{"events.drop_fields": field[:-1] + "*"})
    got = asked(fleet, "dropped", provider)
    ensure("a dropped field is not there", got and all(field not in r["fields"] for r in got))
    _, wire, _ = fleet.run("procfleet-agent", "show-wire", corpus("public/" + file), "--format", "jsonl", "--set",
                           "events.providers=" + provider, "--set", "privacy.redact_names=" + field)
    ensure("show-wire has no such value", texts[-1] not in wire and '"***"' in wire)


def flood(fleet):
    """A loud provider against a rate of one: its neighbours, the samples and the lifecycle are as without it."""
    quiet, loud = "quiet", "loud"
    fleet.replay(quiet, corpus("public/" + LOUD), "--time", "original")
    replay(fleet, loud, LOUD, "*", **{"events.rate": "1", "events.burst": "1"})
    ask = lambda host, *a: [dict(r, host="") for r in fleet.ask(*a, "--host", host, expect=None)]  # noqa: E731
    check("processes beside a flood", ask(loud, "ps", "--all"), ask(quiet, "ps", "--all"))
    check("lifecycle beside a flood", ask(loud, "events", "-n", "10000", "--since", "2000-01-01T00:00:00Z"),
          ask(quiet, "events", "-n", "10000", "--since", "2000-01-01T00:00:00Z"))
    stages = {}
    for r in fleet.ask("coverage", "--host", loud, "--stages", expect=None):
        if r.get("stage") == "forward":
            stages[r["reason"]] = int(r["count"])
    ensure("the flood is in the ledger", stages.get("rate", 0) > 1000, stages)
    check("to the last event", sum(n for k, n in stages.items() if k not in ("in", "unknown")), stages["in"])
    check("what came through", len(asked(fleet, loud, "*")), stages["out"])
    cover = {r["host"]: r.get("coverage", r.get("delivered")) for r in fleet.ask("coverage", expect=None)}
    check("and nobody's coverage suffers", cover[loud], cover[quiet])
    _, out, _ = fleet.cli("providers", "--host", loud, "--since", "2000-01-01T00:00:00Z", expect=None)
    ensure("providers tells what was refused", "%s met %d, rate %d" % (loud, stages["in"], stages["rate"]) in out, out)
    rows = fleet.ask("providers", "--host", loud, "--since", "2000-01-01T00:00:00Z", expect=None)
    counted = collections.Counter(r["provider"] for r in asked(fleet, loud, "*"))
    check("providers counts what came", {r["provider"]: r["events"] for r in rows}, dict(counted))
    name = max(counted, key=counted.get)
    mine = [r for r in asked(fleet, loud, "*") if r["provider"] == name]
    kinds = fleet.ask("providers", name, "--host", loud, "--since", "2000-01-01T00:00:00Z", expect=None)
    count = collections.Counter()
    for r in kinds:
        count[r["id"], r["level"], r.get("event", ""), r.get("task", "")] += r["events"]
    check("and of one what its events are", dict(count),
          dict(collections.Counter((r["id"], r["level"], r.get("event", ""), r.get("task", "")) for r in mine)))
    check("with the names of their fields", {f for r in kinds for f in r["fields"]} >= {f for r in mine for f in r["fields"]}, True)
    check("of one host", {r["hosts"] for r in kinds}, {1})


with Fleet() as fleet:
    fleet.start_collector(**OLD)
    for name, (file, provider) in list(TRACES.items())[:-1]:
        replay(fleet, name, file, provider)
    # The last one comes slowly, while the collector is killed.
    file, provider = TRACES["logger"]
    tls = fleet.agent_args("logger", **dict({k.replace(".", "__"): v for k, v in ANY.items()}, events__providers=provider))
    agent = fleet.start("procfleet-agent", "replay", *tls, corpus("public/" + file), "--speed", "2", log="logger.log")
    for _ in range(3):
        time.sleep(0.7)
        fleet.collector.kill()
        fleet.collector.wait()
        fleet.start_collector(**OLD)
    ensure("the replay ends well", agent.wait(timeout=120) == 0)
    all_of_them(fleet, "from memory")
    filters(fleet)
    meant(fleet)
    durable(fleet, provider, shown(corpus("public/" + file), provider))
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector(**OLD)
    all_of_them(fleet, "after a kill")
    secrets(fleet)
    flood(fleet)
sys.exit(0)
