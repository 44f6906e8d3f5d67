#!/usr/bin/env bash
# A small plant: vibration sensors, a fleet of cars and a camera publish through a broker; wildcards, retained messages,
# a shared subscription, three qualities of service and WebSocket carry them. Prints a summary; exits with 0 if every
# message arrived as it was sent.
#
#   examples/sensors/run.sh                      builds thalweg first
#   THALWEG_BIN=/path/to/thalweg examples/sensors/run.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
broker=""

# Only what this script has started is ended.
cleanup() {
    local status=$?
    # shellcheck disable=SC2046 # one word per process is what kill wants
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    if [ "$status" -ne 0 ] && [ -s "$folder/log" ]; then
        echo "--- the broker's log ---" >&2
        cat "$folder/log" >&2
    fi
    rm -rf "$folder"
}
trap cleanup EXIT

if [ -z "${THALWEG_BIN:-}" ]; then
    cargo build --quiet --manifest-path "$here/../../Cargo.toml" --package thalweg
    THALWEG_BIN=${CARGO_TARGET_DIR:-$here/../../target}/debug/thalweg
fi
# Not a function: in the background a function is a process of its own, and signals would go there.
thalweg=$THALWEG_BIN
sensors() { python3 "$here/sensors.py" "$@"; }

# Waits until a command succeeds, ten seconds at most.
until_true() {
    local what=$1
    shift
    for _ in $(seq 200); do
        if "$@"; then return 0; fi
        sleep 0.05
    done
    echo "error: $what did not happen within ten seconds" >&2
    return 1
}

# ── The broker, on free ports: port 0 lets the system choose, and the line with `ready` tells.
"$thalweg" serve --data "$folder/data" --set listeners.mqtt.bind=127.0.0.1:0 \
    --set listeners.websocket.bind=127.0.0.1:0 --set admin.bind=127.0.0.1:0 2>"$folder/log" &
broker=$!
is_ready() { grep -q ready "$folder/log"; }
until_true "the start of the broker" is_ready
address_of() { grep -m 1 ready "$folder/log" | grep -o "$1 on [^, ]*" | cut -d ' ' -f 3; }
tcp="mqtt://$(address_of mqtt)"
ws="ws://$(address_of websocket)"
admin=$(address_of admin)
echo "a broker at $tcp, $ws and $admin"

# ── Those who listen. Each writes a file; those with --count end by themselves.
"$thalweg" sub 'plant/+/vibration' --url "$tcp" --format hex --count 1500 --timeout 15s >"$folder/vibration" &
readers=($!)
"$thalweg" sub 'fleet/#' -q 1 --url "$ws" --format json --count 200 --timeout 15s >"$folder/status" &
readers+=($!)
"$thalweg" sub 'yard/+/camera' -q 2 --url "$tcp" --format raw --count 5 --timeout 15s >"$folder/camera" &
readers+=($!)
workers=()
for worker in 1 2; do
    "$thalweg" sub 'fleet/+/status' -q 1 --share workers --url "$tcp" --format %p >"$folder/worker-$worker" &
    workers+=($!)
done
hears() { "$thalweg" trace "$1" --url "$admin" | grep -q "$2"; }
until_true "the subscription to vibration" hears plant/1/vibration ' 1 receivers, 0 groups'
until_true "the subscription to fleet" hears fleet/car-1/status ' 1 receivers, [1-9]'
until_true "the subscription to camera" hears yard/gate/camera ' 1 receivers, 0 groups'
both_workers() { [ "$("$thalweg" trace fleet/car-1/status --url "$admin" | grep -o '[0-9]* members' | awk '{n += $1} END {print n + 0}')" -ge 2 ]; }
until_true "the shared subscription" both_workers

# ── Those who speak.
writers=()
for sensor in 1 2 3; do
    sensors vibration "$sensor" 500 | "$thalweg" pub "plant/$sensor/vibration" --stdin-lines --hex --url "$tcp" &
    writers+=($!)
done
for car in car-1 car-2 car-3 car-4 car-5; do
    sensors car "$car" 40 | "$thalweg" pub "fleet/$car/status" --stdin-lines -q 1 --retain --text \
        --content-type application/json --url "$ws" &
    writers+=($!)
done
for number in 0 1 2 3 4; do
    sensors camera "$folder/picture.png" "$number"
    "$thalweg" pub yard/gate/camera --file "$folder/picture.png" -q 2 --content-type image/png \
        --user-property "number=$number" --url "$tcp"
done
for writer in "${writers[@]}"; do wait "$writer"; done
for reader in "${readers[@]}"; do wait "$reader"; done

# A late subscriber finds the last status of each car.
"$thalweg" sub 'fleet/+/status' -q 1 --url "$tcp" --format json --retained-only --count 5 --timeout 5s >"$folder/last"

# The workers have no count of their own; together they have everything soon.
all_shared() { [ "$(cat "$folder"/worker-* | wc -l)" -ge 200 ]; }
until_true "the delivery to the workers" all_shared
kill -TERM "${workers[@]}"
for worker in "${workers[@]}"; do wait "$worker"; done

echo
"$thalweg" top --once --every 200ms --url "$admin"
echo
echo "arrived as sent:"
sensors check "$folder"
kill -TERM "$broker"
wait "$broker"
