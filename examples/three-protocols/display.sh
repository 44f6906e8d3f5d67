#!/usr/bin/env bash
# The display: shows alarms that come by STOMP, without any client library: STOMP is text that ends with a NUL.
#
#   display.sh PORT COUNT
set -euo pipefail

port=$1 count=$2
exec 3<>"/dev/tcp/127.0.0.1/$port"

# A frame: command, headers, an empty line, a body, NUL.
say() { printf '%b\0' "$1" >&3; }
hear() {
    IFS= read -r -d '' -t 20 frame <&3
    # Between frames there may be line ends.
    while [[ $frame == $'\n'* ]]; do frame=${frame#$'\n'}; done
}
header() { sed -n "s/^$1://p; /^\$/q" <<<"$frame" | head -n 1; }

say 'CONNECT\naccept-version:1.2\nhost:/\n\n'
hear
[[ $frame == CONNECTED* ]] || { echo "error: $frame" >&2 && exit 1; }

# The same topics, as STOMP writes them; each alarm is acknowledged by itself.
say 'SUBSCRIBE\nid:alarms\ndestination:/topic/plant.*.alarm\nack:client-individual\nreceipt:subscribed\n\n'
hear
[[ $frame == RECEIPT* ]] || { echo "error: $frame" >&2 && exit 1; }
echo "ready"

for _ in $(seq "$count"); do
    hear
    [[ $frame == MESSAGE* ]] || { echo "error: $frame" >&2 && exit 1; }
    echo "$(header destination): ${frame#*$'\n\n'} ($(header degrees))"
    say "ACK\nid:$(header ack)\n\n"
done

say 'DISCONNECT\nreceipt:bye\n\n'
hear
[[ $frame == RECEIPT* ]]
