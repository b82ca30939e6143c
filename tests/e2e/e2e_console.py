"""The console's API answers what the command line answers, value by value, through every door there is: RPC Query/Web as a
relay asks it, and `procfleet console`. A restricted certificate sees its hosts only, and revocation ends access.

Standard library only. `e2e_console.py` starts a fleet of its own; data is complete before anything is compared.
`--door nginx` goes through the example of docs/console.md with Debian's nginx alone.
`e2e_console.py --same top --since 2026-11-23T14:00:00Z --until 2026-11-23T14:05:00Z` compares one question of the collector
that the environment or a profile names (PROCFLEET_COLLECTOR and so on), through `procfleet console`.
"""

import argparse
import base64
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

import sp  # noqa: E402
from fleet import BIN, ROOT, Fleet, check, ensure, skip  # noqa: E402

MS = 1000000
# what the API calls otherwise than the command line's JSON, of processes and events
KEYS = {"parent": "parent_pid", "start_ns": "create_time", "end_ns": "exit_time", "path": "image", "command": "command_line"}


class Relay:
    """RPC Query/Web, as `procfleet console` asks it."""
    name = "Query/Web"

    def __init__(self, fleet, who="operator"):
        self.connection = sp.Connection("127.0.0.1:" + fleet.ports["query"], sp.SP_REQ, fleet.tls(who), timeout=60)

    def get(self, path, query="", encoding=""):
        payload = sp.field_bytes(1, path.encode()) + sp.field_bytes(2, query.encode()) + sp.field_bytes(4, encoding.encode())
        code, message, reply = sp.call(self.connection, "procfleet.v1.Query/Web", payload, 40000)
        check("%s %s?%s is answered" % (self.name, path, query[:60]), (code, message), (0, ""))
        f = sp.fields(reply)
        return f[1][0], f.get(3, [b""])[0].decode(), f.get(5, [b""])[0]

    def close(self):
        self.connection.close()


def environment(fleet, who):
    """Of the command line as this certificate; of nobody: as it is."""
    if not who:
        return os.environ
    tls = fleet.tls(who)
    return dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
                PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])


class DoorA:
    """`procfleet console --no-open`: logs in by its link."""
    name = "procfleet console"
    options = ["--listen", "127.0.0.1:0"]

    def __init__(self, fleet, who="operator"):
        self.process = subprocess.Popen([os.path.join(BIN, "procfleet"), "console", "--no-open", *self.options],
                                        env=environment(fleet, who), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        fleet.processes.append(self.process)
        link = ""
        while "#ticket=" not in link:
            link = self.process.stdout.readline()
            ensure("the console prints its link", link)
        self.address, ticket = re.search(r"https?://([^/]+)/#ticket=([0-9a-f]+)", link).groups()
        status, headers, body = self.ask("POST", "/api/v1/session", json.dumps({"ticket": ticket}), {"Content-Type": "application/json"})
        check("login through " + self.name, status, 200)
        self.headers = {"Cookie": headers["Set-Cookie"].split(";")[0], "X-Procfleet-Key": json.loads(body)["key"]}

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        c = self.connect()
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()

    def get(self, path, query="", encoding=""):
        headers = dict(self.headers, **({"Accept-Encoding": encoding} if encoding else {}))
        status, got, body = self.ask("GET", path + ("?" + query if query else ""), None, headers)
        while status == 429 and got.get("Retry-After"):  # a session has 20 requests a second
            time.sleep(float(got["Retry-After"]))
            status, got, body = self.ask("GET", path + ("?" + query if query else ""), None, headers)
        return status, got.get("Content-Encoding", ""), body

    def close(self):
        self.process.terminate()
        self.process.wait()


class DoorB(DoorA):
    """The collector's own listener, by a link of `procfleet console --direct`."""
    name = "listen.console"
    options = ["--direct"]


class Nginx(DoorB):
    """The same behind the proxy, which has its own TLS and password."""
    name = "nginx"

    def __init__(self, fleet, who="operator"):
        self.tls = ssl.create_default_context(cafile=fleet.tls("collector")["ca"])
        self.password = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
        super().__init__(fleet, who)

    def connect(self):
        return http.client.HTTPSConnection(self.address, context=self.tls, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        return super().ask(method, path, body, dict(headers or {}, **self.password))


DOORS = {"relay": Relay, "a": DoorA, "b": DoorB, "nginx": Nginx}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nginx(fleet, front):
    """The example of docs/console.md as it stands, with our ports and files, in front of the collector's listener."""
    text = re.search(r"```nginx\n(.*?)```", open(os.path.join(ROOT, "docs", "console.md")).read(), re.S).group(1)
    cert = fleet.tls("collector")
    password = subprocess.run(["openssl", "passwd", "-apr1", "secret"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    with open(fleet.path("users"), "w") as f:
        f.write("ann:%s\n" % password)
    for old, new in (("443", "127.0.0.1:%d" % front), ("console.example.org", "localhost"), ("/etc/ssl/console.pem", cert["cert"]),
                     ("/etc/ssl/console.key", cert["key"]), ("/etc/nginx/console.users", fleet.path("users")),
                     ("7425", fleet.ports["console"])):
        check("the example has %s" % old, text.count(old), 1)
        text = text.replace(old, new)
    places = "".join("%s_temp_path %s;\n" % (p, fleet.path("nginx-" + p)) for p in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.getuid() == 0 else ""
    with open(fleet.path("nginx.conf"), "w") as f:
        f.write("%spid %s;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n" % (user, fleet.path("nginx.pid"), places, text))
    log = open(fleet.path("nginx.log"), "w")
    p = subprocess.Popen([nginx_program(), "-e", "stderr", "-p", fleet.dir, "-c", fleet.path("nginx.conf"), "-g", "daemon off;"],
                         stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    fleet.processes.append(p)

    def up():
        ensure("nginx runs", p.poll() is None, open(fleet.path("nginx.log")).read())
        try:
            socket.create_connection(("127.0.0.1", front)).close()
            return True
        except OSError:
            return False
    fleet.wait_for("nginx to listen", up)
    return p


def nginx_program():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


class Api:
    def __init__(self, door):
        self.door = door

    def __call__(self, path, /, expect=200, **args):
        query = urllib.parse.urlencode(args, quote_via=urllib.parse.quote)
        status, _, body = self.door.get("/api/v1/" + path, query)
        if status != expect:
            check("%s?%s" % (path, query), (status, body[:300]), expect)
        return json.loads(body)

    def pages(self, path, part, /, **args):
        """All pages' parts, and the first answer."""
        first = answer = self(path, **args)
        rows = list(answer[part])
        while answer["more"]:
            answer = self(path, cursor=answer["cursor"], **args)
            rows += answer[part]
        return rows, first


# -- the same in the command line's words --

def present(row):
    return {k: v for k, v in row.items() if v is not None}


def plain(row):
    """A process or event of the API under the command line's keys."""
    return present({KEYS.get(k, k): v for k, v in row.items()})


def rows_of(answer):
    """Columns as rows: what the command line prints of each, and when it was."""
    rows, out = answer["rows"], []
    for i in range(rows["n"]):
        row = plain(answer["infos"][rows["info"][i]])
        row["host"] = answer["hosts"][rows["host"][i]]["name"]
        row.update(present({name: column[i] for name, column in rows["values"].items()}))
        out.append((row, rows["time_ms"][i]))
    return out


def cli_json(fleet, *args, expect=None):
    return json.loads(fleet.cli(*args, "--format", "json", expect=expect)[1])


def agree(what, api, cli, ignore=(), also=("time_ms",)):
    """Lists of rows, the same in every value. The command line is first to say which keys there are."""
    check("%s: as many rows" % what, len(api), len(cli))
    for a, b in zip(api, cli):
        a = {k: v for k, v in a.items() if k not in ignore and k not in also}
        b = {k: v for k, v in b.items() if k not in ignore}
        if a != b:
            check("%s: a row" % what, {k: (a.get(k), b.get(k)) for k in a.keys() | b.keys() if a.get(k) != b.get(k)}, {})
    ensure("%s: %d rows agree" % (what, len(cli)), cli)


def top(fleet, api, window, options):
    note = api("top", **window)["notes"][-1]
    ensure("the last note is the coverage", note.startswith("coverage"), note)
    for group in ("process", "image", "user", "host", "tree", "fleet", "image-user"):
        cli = cli_json(fleet, "top", "--group-by", group, "-n", "50", *options)
        agree("top by " + group, api("top", group_by=group, limit=50, shape="rows", **window)["rows"], cli)
        if group == "process":
            agree("top in columns", [r for r, _ in rows_of(api("top", limit=50, **window))], cli)
    for word in ("sum", "max", "avg"):
        cli = cli_json(fleet, "top", "--by", "working_set_size", "--as", word, "-n", "5", *options)
        got = api("top", metric="working_set_size", by=word, limit=5, shape="rows", **window)["rows"]
        check("top as " + word, [(r["pid"], r["working_set_size"]) for r in got], [(r["pid"], r["working_set_size"]) for r in cli])


def processes(fleet, api, window, options):
    cli = cli_json(fleet, "ps", "--all", *options)
    agree("processes", api.pages("processes", "rows", exited="true", shape="rows", **window)[0], cli)
    first = rows_of(api("processes", exited="true", **window))
    agree("processes in columns", [r for r, _ in first], cli[:len(first)], {"time"})
    name = cli[0]["name"]
    agree("processes of a name", api.pages("processes", "rows", exited=1, name=name, shape="rows", **window)[0],
          cli_json(fleet, "ps", "--all", "--name", name, *options))


def tree(fleet, api, window, options):
    at = window["until"]
    agree("tree", api.pages("tree", "rows", at=at, shape="rows")[0], cli_json(fleet, "tree", "--at", at))


def history(fleet, api, window, options):
    cli = cli_json(fleet, "history", "--name", "procfleet-*", "-n", "100000", *options)
    rows, _ = api.pages("history", "rows", name="procfleet-*", shape="rows", **window)
    agree("history", rows, cli)
    answer = api("history", name="procfleet-*", **window)
    times = [round(int(r["time"]) / MS, 3) for r in cli][:answer["rows"]["n"]]
    ensure("times are milliseconds", all(abs(a - b) < 0.002 for (_, a), b in zip(rows_of(answer), times)))


def events(fleet, api, window, options):
    cli = cli_json(fleet, "events", "--kind", "all", "-n", "100000", *options)
    rows, _ = api.pages("events", "rows", kinds="all", shape="rows", **window)
    agree("events", rows, cli)
    answer = api("events", kinds="all", **window)
    got = [dict(plain(e), host=answer["hosts"][e["host"]]["name"], time=e["time_ns"]) for e in answer["events"]]
    agree("events in columns", got, cli[:len(got)], {"time_ns"})
    ensure("what is missing between them comes with them", answer["coverage"]["hosts"], answer["coverage"])


def series(fleet, api, window, options):
    for group in ("process", "image", "user", "host", "fleet"):
        metrics = "cpu_percent,cpu_time,working_set_size"
        cli = cli_json(fleet, "history", "--group-by", group, "--buckets", "20", "-m", metrics, "-n", "5", *options)
        ask = dict(window, group_by=group, buckets=20, metric=metrics, limit=5)
        agree("series by " + group, api("series", shape="rows", **ask)["rows"], cli)
        answer = api("series", **ask)
        s, got = answer["series"], []
        for g, x in enumerate(s["groups"]):
            check("the label of a row is its group's", x["label"], answer["rows"]["label"][g] if g < answer["rows"]["n"] else None)
            for b in range(s["n"]):
                row = {m: c["avg"][b] for m, c in x["columns"].items() if c["avg"][b] is not None}
                got.append(dict(row, time=str(int(s["t0_ns"]) + b * s["step_ns"]), others=x["label"] is None,
                                present_ppm=s["present"][b], hosts_in=s["hosts_in"][b],
                                reaches=s["reaches"][b]))
        agree("series in columns by " + group, got, cli, {"host", "pid", "start", "name", "user"})
    answer = api("series", envelope="true", metric="working_set_size", limit=1, buckets=3, **window)
    column = answer["series"]["groups"][0]["columns"]["working_set_size"]
    ensure("least, mean and greatest are in order", all(a is None or a <= b <= c for a, b, c in
                                                        zip(column["min"], column["avg"], column["max"])), column)


def lifetimes(fleet, api, window, options):
    cli = cli_json(fleet, "timeline", *options)
    answer = api("lifetimes", **window)
    l, rows = answer["lifetimes"], []

    def ns(ms):
        return round(ms * 1000) * 1000  # answers have microseconds

    for i in range(l["n"]):
        began, life, parent, flags, cpu = int(l["t0_ns"]) + ns(l["start_ms"][i]), l["life_ms"][i], l["parent"][i], l["flags"][i], l["cpu_ms"][i]
        row = {"host": answer["hosts"][l["host"][i]]["name"], "pid": l["pid"][i], "name": l["names"][l["name"][i]] or None,
               "user": l["names"][l["user"][i]] or None, "start_time": str(began), "lives": life == -1,
               "parent": (l["pid"][parent - 1] if parent > 0 else -parent) or None, "exit_code": l["exit_code"][i],
               "cpu_time": None if cpu is None else str(ns(cpu)), "end_inferred": bool(flags & 1), "start_unknown": bool(flags & 2),
               "cpu_exact": bool(flags & 4), "end_unknown": bool(flags & 8)}
        if life >= 0:
            row.update(life_ns=str(ns(life)), end_time=None if flags & 8 else str(began + ns(life)))
        rows.append(present(row))
    agree("lifetimes", rows, cli, {"start", "parent_start"})
    ensure("the density counts them", sum(l["density"]["starts"]) > 0, l["density"])
    ensure("what is missing comes with them", answer["coverage"]["hosts"], answer["coverage"])


def pulse(fleet, api, window, options):
    groups = api.pages("hosts", "hosts")[0]
    answer = api("pulse")
    check("the pulse has a group for each host", [g["label"] for g in answer["series"]["groups"]], [h["name"] for h in groups])
    check("of two hours", answer["series"]["n"] * answer["series"]["step_ns"], 7200 * 1000000000)
    first = answer["series"]["groups"][0]["columns"]
    ensure("with processes", any(v for v in first["processes"]["avg"]), first["processes"])


def hosts(fleet, api, window, options):
    cli = cli_json(fleet, "hosts")
    got = api.pages("hosts", "hosts")[0]
    keys = {"name": "host", "first_ns": "first_time", "last_ns": "last_time", "heard_ns": "heard_time", "version": "agent_version",
            "offset_ns": "clock_offset_ns", "offset_error_ns": "clock_error_ns", "not_after_ns": "certificate_end_time"}
    wide = {h["host"]: h for h in cli_json(fleet, "hosts", "--wide")}
    for a in got:
        known = wide[a["name"]]
        check("class of " + a["name"], a.pop("class", None), known.get("class"))
        check("labels of " + a["name"], " ".join("%s=%s" % l for l in a.pop("labels", {}).items()), known.get("labels", "").replace("!", ""))
        a.update({k: int(a[k]) for k in ("batches", "duplicates", "gaps", "lost_events")})
        a = {keys.get(k, k): v for k, v in a.items() if v is not None}
        a["state"] = "connected" if a.pop("connected") else "ended" if a["ended"] else "silent"
        del a["ended"]
        b = [h for h in cli if h["host"] == a["host"]]
        clock = ("clock_offset_ns", "clock_error_ns") # estimates that grow older from one question to the next
        ensure("the clock's offset, to a millisecond", all(abs(int(a.get(k, 0)) - int(b[0].get(k, 0))) < MS for k in clock), (a, b))
        agree("hosts: " + a["host"], [a], b, clock)


def coverage(fleet, api, window, options):
    cli = cli_json(fleet, "coverage", *options)
    answer = api("coverage", **window)
    keys = {"since_ns": "since_time", "until_ns": "until_time", "ppm": "coverage_ppm"}
    got = [present({keys.get(k, k): v for k, v in c.items()}) for c in answer["coverage"]["hosts"]]
    for c in got:
        c["host"] = answer["hosts"][c["host"]]["name"]
    agree("coverage", got, cli, {"spans", "stages", "most_lost_by", "lost_first_time", "lost_last_time"})
    check("the mean of coverage", answer["coverage"]["ppm"], sum(c["ppm"] for c in answer["coverage"]["hosts"]) //
          len(answer["coverage"]["hosts"]))
    cli = cli_json(fleet, "coverage", "--stages", *options)
    answer = api("coverage", stages="true", **window)
    keys = {"first_ns": "first_time", "last_ns": "last_time"}
    got = [present({keys.get(k, k): v for k, v in dict(s, host=answer["hosts"][c["host"]]["name"], count=int(s["count"])).items()})
           for c in answer["coverage"]["hosts"] for s in c["stages"]]
    agree("stages", got, cli)


def overview(fleet, api, window, options):
    cli = cli_json(fleet, "overview", *options)[0]
    got = api("overview", **window)["overview"]
    same = ("hosts", "connected", "silent", "ended", "processes", "cpus", "batches", "gaps", "lost_events", "disk_total:disk_total_bytes",
            "ceiling_bytes", "first_ns:first_time", "last_ns:last_time")
    for key in same:
        a, _, b = key.partition(":")
        check("overview: " + a, got[a], cli.get(b or a))


def rest(api):
    listed = {m["name"]: m for m in api("metrics")["list"]}
    check("the unit of cpu_percent", (listed["cpu_percent"]["unit"], listed["cpu_time"]["kind"]), ("percent", "counter"))
    info = api("info")
    check("who asks", (info["name"], info["role"], info["hosts"]), ("operator", "query", 2))
    check("without rules nothing is told of them", api("rules")["events"], [])
    ensure("openapi.json is there", api("openapi.json")["openapi"].startswith("3.1"))


# In the order in which they are compared.
QUESTIONS = {f.__name__: f for f in (top, processes, tree, history, events, series, lifetimes, pulse, hosts, coverage, overview)}


def window_of(since, until):
    return {"since": since, "until": until}, ["--since", since, "--until", until]


# -- refusals, packing, updates --

def refusals(api):
    for name, args, says in (("top", {"limt": 5}, "did you mean 'limit'"), ("top", {"limit": "0"}, "1 to 4096"),
                             ("top", {"metric": "cpu_tme"}, "did you mean 'cpu_time'"), ("top", {"since": "yesterday"}, "since"),
                             ("top", {"kinds": "level"}, "no parameter 'kinds'"), ("metrics", {"x": 1}, "takes none"),
                             ("top", {"cursor": "00"}, "cursor"), ("events", {"kinds": "nonsense"}, "kinds")):
        error = api(name, expect=400, **args)
        ensure("%s?%s: %s" % (name, args, error["message"]), error["code"] == "INVALID_ARGUMENT" and says in error["message"], error)
    status, _, body = api.door.get("/api/v1/top", "limit=1&limit=2")
    ensure("a parameter twice", status == 400 and "twice" in json.loads(body)["message"], body)
    ensure("an unknown path names the closest", "top?" in api("tops", expect=404)["message"])
    check("no such host is no error", api("top", host="nobody")["partial"], True)


def packed(api):
    status, encoding, body = api.door.get("/api/v1/processes", "exited=1", "gzip, zstd")
    check("large answers are packed where that is accepted", (status, encoding, body[:4]), (200, "zstd", b"\x28\xb5\x2f\xfd"))
    _, encoding, plain_body = api.door.get("/api/v1/processes", "exited=1")
    check("not where it is not", encoding, "")
    ensure("packed is smaller: %d of %d" % (len(body), len(plain_body)), len(body) * 2 < len(plain_body))
    check("small ones are not packed", api.door.get("/api/v1/info", "", "zstd")[1], "")


def updates(fleet, api):
    first = api("updates")
    check("without a cursor: from now on", (first["updates"], first["lost"]), ([], 0))
    agent = fleet.start_agent("alpha", batch__max_age="500ms")
    fleet.wait_for("the agent", lambda: fleet.hosts()["alpha"]["state"] == "connected")
    subprocess.run(["true"], check=True)
    cursor, names, ends = first["cursor"], set(), time.monotonic() + 40
    while "true" not in names and time.monotonic() < ends:
        got = api("updates", cursor=cursor, wait="5s", host="alpha")
        cursor = got["cursor"]
        for u in got["updates"]:
            check("an update names its host", u["name"], "alpha")
            names |= {e["name"] for e in u["events"]}
    ensure("updates bring what started", "true" in names, names)
    fleet.stop(agent)


def scope(fleet, door):
    name = "narrow-%s" % door.__name__.lower()
    fleet.issue("query", name, "pki", None, "--scope", "alpha")
    api = Api(door(fleet, name))
    check("a restricted certificate sees its hosts", [h["name"] for h in api("hosts")["hosts"]], ["alpha"])
    check("and says so", api("info")["scope"], "alpha")
    check("another host by name is refused", api("top", expect=403, host="beta")["code"], "PERMISSION_DENIED")
    check("by a pattern nothing is found", api("top", host="b*")["rows"]["n"], 0)
    api.door.close()


def revocation(fleet, door):
    name = "leaver-%s" % door.__name__.lower()
    fleet.issue("query", name)
    api = Api(door(fleet, name))
    ensure("before revocation it asks", api("info")["name"] == name)
    fleet.run("procfleet-collector", "pki", "revoke", "--dir", fleet.path("pki"), name)

    def refused():
        try:
            return api.door.get("/api/v1/info")[0] != 200
        except (OSError, EOFError, AssertionError, http.client.HTTPException):
            return True

    fleet.wait_for("revocation to end access", refused, 20)
    ensure("revocation ends access through " + door.name, True)
    api.door.close()


class Here:
    """The collector that the environment or a profile names."""
    processes = []

    def cli(self, *args, expect=None):
        done = subprocess.run([os.path.join(BIN, "procfleet"), *args], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout, ""


def same(name, since, until):
    api = Api(DoorA(Here(), None))
    QUESTIONS[name](Here(), api, *window_of(since, until))
    api.door.close()


def whole(doors):
    front = free_port() if Nginx in doors else None
    with Fleet() as fleet:
        fleet.start_collector(listen__console="127.0.0.1:0", **({"console__url": "https://localhost:%d" % front} if front else {}))
        if front:
            nginx(fleet, front)
        agents = [fleet.start_agent(name, batch__max_age="500ms") for name in ("alpha", "beta")]
        fleet.wait_for("both hosts", lambda: len(fleet.hosts()) == 2)
        begin = time.time()
        for _ in range(3):
            subprocess.run(["sleep", "0.7"], check=True)
        time.sleep(2)
        for agent in agents:
            fleet.stop(agent)
        fleet.wait_for("their last words", lambda: all(h["state"] != "connected" for h in fleet.hosts().values()))
        form = "%Y-%m-%dT%H:%M:%SZ"
        window = window_of(time.strftime(form, time.gmtime(begin - 1)), time.strftime(form, time.gmtime(time.time() + 1)))
        for door in doors:
            print("-- %s" % door.name)
            api = Api(door(fleet))
            for question in QUESTIONS.values():
                question(fleet, api, *window)
            rest(api)
            refusals(api)
            packed(api)
            updates(fleet, api)
            fleet.wait_for("alpha to be gone", lambda: fleet.hosts()["alpha"]["state"] != "connected")
            api.door.close()
            scope(fleet, door)
            revocation(fleet, door)


options = argparse.ArgumentParser()
options.add_argument("--same", choices=QUESTIONS)
options.add_argument("--since")
options.add_argument("--until")
options.add_argument("--door", choices=DOORS, action="append")
if __name__ == "__main__":
    given = options.parse_args()
    if "nginx" in (given.door or ()) and not (nginx_program() and shutil.which("openssl")):
        skip("nginx or openssl is not installed")
    if given.same:
        same(given.same, given.since, given.until)
    else:
        whole([DOORS[d] for d in given.door or ("relay", "a", "b")])
