#!/usr/bin/env bash
# Three workers share the jobs of one group; after a while one of them gets slow. The broker sees it and gives its share to
# the others. Prints what `thalweg top` says before and after, and who did how many jobs in each second. Exits with 0 if
# every job was done.
#
#   examples/workers/demo.sh                      builds thalweg first, starts a broker on free ports
#   THALWEG_BIN=/path/to/thalweg PYTHON=/path/to/python SECONDS_EACH=5 examples/workers/demo.sh
#   MQTT_PORT=1883 ADMIN_PORT=7883 …              with a broker that runs already
#
# Needs a Python with Paho 2 (pip install paho-mqtt).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
python=${PYTHON:-python3}
each=${SECONDS_EACH:-5}
rate=${RATE:-90}

# Only what this script has started is ended.
cleanup() {
    local status=$?
    # shellcheck disable=SC2046 # one word per process is what kill wants
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    if [ "$status" -ne 0 ]; then
        for said in "$folder"/*.log; do echo "--- $said ---" >&2 && tail -n 20 "$said" >&2; done
    fi
    rm -rf "$folder"
}
trap cleanup EXIT

if [ -z "${THALWEG_BIN:-}" ]; then
    cargo build --quiet --manifest-path "$here/../../Cargo.toml" --package thalweg
    THALWEG_BIN=${CARGO_TARGET_DIR:-$here/../../target}/debug/thalweg
fi

# Waits until somebody has said that it is ready, ten seconds at most.
until_ready() {
    for _ in $(seq 200); do
        if grep -qw ready "$folder/$1.log" 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    echo "error: $1 was not ready within ten seconds" >&2
    return 1
}

if [ -z "${MQTT_PORT:-}" ]; then
    # Port 0 lets the system choose, and the line with `ready` tells.
    "$THALWEG_BIN" serve --data "$folder/data" --set listeners.mqtt.bind=127.0.0.1:0 \
        --set listeners.websocket.enabled=false --set admin.bind=127.0.0.1:0 2>"$folder/broker.log" &
    until_ready broker
    port_of() { grep -m 1 -w ready "$folder/broker.log" | grep -o "\b$1 on [a-z:/]*127.0.0.1:[0-9]*" | grep -o '[0-9]*$'; }
    MQTT_PORT=$(port_of mqtt)
    ADMIN_PORT=$(port_of admin)
fi
# Of all that it shows, what it says of groups.
top() { "$THALWEG_BIN" top --once --url "http://127.0.0.1:${ADMIN_PORT:-7883}" | sed -n '/^groups /,/^$/p'; }

# ── Three workers that need 20 ms for a job; the third can be throttled to 60 ms.
for number in 1 2 3; do
    "$python" "$here/worker.py" "$MQTT_PORT" "worker-$number" 20 60 >"$folder/worker-$number.log" 2>&1 &
    eval "worker_$number=$!"
done
for number in 1 2 3; do until_ready "worker-$number"; done

# ── Jobs, at a steady rate, a little longer than we look.
count=$(((2 * each + 3) * rate))
seq "$count" | "$THALWEG_BIN" pub jobs/resize --stdin-lines --rate "$rate/s" -q 1 \
    --url "mqtt://127.0.0.1:$MQTT_PORT" >"$folder/publisher.log" 2>&1 &
publisher=$!

sleep "$each"
echo "── all three need 20 ms for a job"
top
# shellcheck disable=SC2154 # set by eval above
kill -USR1 "$worker_3"
throttled=$(date +%s.%N)
sleep "$each"
echo "── worker-3 has needed 60 ms for $each seconds"
top
wait "$publisher"

# ── Who did what, second by second.
jobs_done() { cat "$folder"/worker-[123].log | grep -v '^ready$'; }
for _ in $(seq 100); do
    if [ "$(jobs_done | cut -d ' ' -f 3 | sort -u | wc -l)" -eq "$count" ]; then break; fi
    sleep 0.1
done
jobs_done | sort -n | awk -v throttled="$throttled" '
    {
        second = int($1 - throttled + 1000) - 1000
        if (NR == 1) first = second
        jobs[second, $2]++
        last = second
        if (second < 0) { before[$2]++; all_before++ } else { after[$2]++; all_after++ }
    }
    END {
        print "jobs in each second\n           worker-1  worker-2  worker-3"
        for (second = first; second <= last; second++) {
            printf "%5d s    %8d  %8d  %8d%s\n", second, jobs[second, "worker-1"], jobs[second, "worker-2"], \
                jobs[second, "worker-3"], second == 0 ? "  <- throttled from here on" : ""
        }
        print ""
        for (number = 1; number <= 3; number++) {
            name = "worker-" number
            printf "%s did %.0f %% before and %.0f %% after\n", name, 100 * before[name] / all_before, \
                100 * after[name] / all_after
        }
    }'
done_once=$(jobs_done | cut -d ' ' -f 3 | sort -u | wc -l)
done_again=$(($(jobs_done | wc -l) - done_once))
echo "$count jobs, $done_once done, $done_again of them again"
[ "$done_once" -eq "$count" ]
