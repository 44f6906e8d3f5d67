#!/usr/bin/env bash
# Three programs that have never heard of each other's protocols work together through one broker: a sensor publishes by
# MQTT, a worker takes its readings out of a queue by AMQP, a display shows alarms by STOMP. Exits with 0 if every alarm
# that must come has come, and no other.
#
#   examples/three-protocols/run.sh                      builds thalweg first
#   THALWEG_BIN=/path/to/thalweg PYTHON=/path/to/python examples/three-protocols/run.sh
#
# Needs mosquitto_pub, and a Python with pika (pip install pika).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
python=${PYTHON:-python3}

# Only what this script has started is ended.
cleanup() {
    local status=$?
    # shellcheck disable=SC2046 # one word per process is what kill wants
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    if [ "$status" -ne 0 ]; then
        for said in "$folder"/*.log; do echo "--- $said ---" >&2 && cat "$said" >&2; done
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

# ── The broker, on free ports: port 0 lets the system choose, and the line with `ready` tells.
"$THALWEG_BIN" serve --data "$folder/data" --set listeners.mqtt.bind=127.0.0.1:0 \
    --set listeners.amqp.enabled=true --set listeners.amqp.bind=127.0.0.1:0 \
    --set listeners.stomp.enabled=true --set listeners.stomp.bind=127.0.0.1:0 \
    --set listeners.websocket.enabled=false --set admin.bind=127.0.0.1:0 2>"$folder/broker.log" &
broker=$!
until_ready broker
port_of() { grep -m 1 -w ready "$folder/broker.log" | grep -o "\b$1 on 127.0.0.1:[0-9]*" | cut -d : -f 2; }
echo "a broker: MQTT on $(port_of mqtt), AMQP on $(port_of amqp), STOMP on $(port_of stomp)"

# ── The worker and the display.
"$python" "$here/worker.py" "$(port_of amqp)" 20 75 >"$folder/worker.log" 2>&1 &
worker=$!
bash "$here/display.sh" "$(port_of stomp)" 5 >"$folder/display.log" 2>&1 &
display=$!
until_ready worker
until_ready display

# ── The sensor: twenty readings of a machine that warms up, acknowledged by the broker one by one.
seq 61 80 | mosquitto_pub -V mqttv5 -p "$(port_of mqtt)" -q 1 -t plant/3/temperature -l

wait "$worker" "$display"
cat "$folder/worker.log" "$folder/display.log"

expected=$(for degrees in 76 77 78 79 80; do
    echo "/topic/plant.3.alarm: machine 3: $degrees.0 degrees ($degrees.0)"
done)
if [ "$(grep -v '^ready$' "$folder/display.log")" != "$expected" ]; then
    echo "error: these are not the five alarms that must come" >&2
    exit 1
fi
echo "every alarm has come"
kill -TERM "$broker"
wait "$broker"
