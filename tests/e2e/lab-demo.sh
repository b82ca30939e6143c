#!/usr/bin/env bash
# The lab on this machine's real load, by hand: runs of equal and of slower programs, verdicts, kills.
#
# Usage: tests/e2e/lab-demo.sh [RUNS]      runs a side, 8 by default; about four minutes
#
# Starts a collector and this machine's agent in a directory of its own, and stops them at its end. Every line that is
# wrong begins with "not ok"; the exit code is 1 then. As root, so that the agent is told of every process.
set -uo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${PROCFLEET_BIN:-$root/build/release/bin}
runs=${1:-8}
dir=$(mktemp -d)
bad=0
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    kill -9 "${agent:-}" "${collector:-}" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT

expect() { # expect WHAT CODE COMMAND...
    local what=$1 code=$2 got
    shift 2
    "$@" >"$dir/out" 2>&1
    got=$?
    if [ "$got" = "$code" ]; then
        echo "ok: $what"
    else
        echo "not ok: $what: exit code $got, not $code"
        sed 's/^/    /' "$dir/out"
        bad=1
    fi
}
issue() { "$bin/procfleet-collector" pki issue --dir "$dir/pki" --role "$1" --name "$2" --out "$dir/tls" >/dev/null; }
start_collector() {
    rm -f "$dir/ports"
    "$bin/procfleet-collector" run --ports-file "$dir/ports" --set "data_dir=$dir/data" --set "pki.dir=$dir/pki" \
        --set "tls.ca=$dir/pki/ca.pem" --set "tls.cert=$dir/tls/collector.pem" --set "tls.key=$dir/tls/collector.key" \
        --set "listen.ingest=127.0.0.1:${ingest:-0}" --set "listen.query=127.0.0.1:${query:-0}" --set listen.events= \
        --set listen.enroll= --set listen.http= >>"$dir/collector.log" 2>&1 &
    collector=$!
    until [ -s "$dir/ports" ]; do sleep 0.1; done
    ingest=$(sed -n 's/^ingest=//p' "$dir/ports")
    query=$(sed -n 's/^query=//p' "$dir/ports")
}
start_agent() {
    mkdir -p "$dir/agent"
    "$bin/procfleet-agent" run --set "state_dir=$dir/agent" --set "collector.addresses=127.0.0.1:$ingest" \
        --set "tls.ca=$dir/pki/ca.pem" --set "tls.cert=$dir/tls/$(hostname).pem" \
        --set "tls.key=$dir/tls/$(hostname).key" >>"$dir/agent.log" 2>&1 &
    agent=$!
}
pf() { "$bin/procfleet" "$@"; }

"$bin/procfleet-collector" pki init --dir "$dir/pki" --name demo >/dev/null
issue collector collector
issue agent "$(hostname)"
issue query,mark ci
start_collector
start_agent
export PROCFLEET_COLLECTOR=127.0.0.1:$query PROCFLEET_CA=$dir/pki/ca.pem PROCFLEET_CERT=$dir/tls/ci.pem
export PROCFLEET_KEY=$dir/tls/ci.key XDG_STATE_HOME=$dir/state
until pf hosts --format csv 2>/dev/null | grep -q "$(hostname)"; do sleep 0.2; done

burn="$bin/tests/burn cpu"
[ -x "$bin/tests/burn" ] || burn="$bin/burn cpu"
for _ in $(seq "$runs"); do
    for v in a:3.00 a2:3.00 b:3.24; do
        # shellcheck disable=SC2086
        pf run exec "${v%:*}" -- $burn "${v#*:}"
    done
done
expect "equal programs: no regression" 0 pf gate a2 --against a --fail-on 'cpu_time>5%' --wait 3m
expect "8 % more CPU time: a regression" 6 pf gate b --against a --fail-on 'cpu_time>5%' --wait 3m

pf run begin lossy --host "$(hostname)" >/dev/null
sleep 40
kill -9 "$agent"
sleep 20
start_agent
sleep 40
pf run end lossy
expect "one run with a loss: no verdict" 5 pf gate lossy --against a --fail-on 'cpu_time>5%' --wait 4m

pf run begin k --host '*' >/dev/null
kill -9 "$collector"
wait "$collector" 2>/dev/null
start_collector
pf run end k
expect "one run, from the first moment on" 0 sh -c "[ \"\$('$bin/procfleet' run list k --format csv | tail -n +2 | wc -l)\" = 1 ]"
exit $bad
