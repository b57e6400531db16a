#!/usr/bin/env bash
# A whole federation on this machine: an aggregator, a server and 20 clients, each a
# process with a key, a folder and a ratings file of its own. Takes seconds and leaves
# nothing behind. PORT (default 17946) is where the aggregator listens, PORT+1 its status.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
port=${PORT:-17946}
ops=127.0.0.1:$((port + 1))

dir=$(mktemp -d "${TMPDIR:-/tmp}/fednode-demo.XXXXXX")
finish() {
	trap '' INT TERM
	# All that bash has started, also what it had no time to note. Until it is gone: a
	# process that has only just been forked loses its first signal.
	for pid in $(jobs -p); do
		while kill "$pid" 2>/dev/null; do
			sleep 0.05
		done
	done
	wait
	rm -rf "$dir"
}
trap finish EXIT
# By itself bash goes on if what is in the foreground ends well just then. Whoever is
# impatient must not end finish before it has begun.
trap 'trap "" INT TERM; exit 130' INT
trap 'trap "" INT TERM; exit 143' TERM

say() { printf '\n=> %s\n' "$*"; }

say go build ./cmd/fednode
go build -o "$dir/fednode" ./cmd/fednode
PATH=$dir:$PATH # no function: finish must end the processes themselves

say "the operator founds a federation and invites its parties"
fednode keygen "$dir/operator.key"
fednode keygen "$dir/aggregator.key" | tee "$dir/aggregator.txt"
fednode invite --operator "$dir/operator.key" --federation "$dir/federation.json" --name Demo --clients 20 \
	--aggregator-key "$(awk '/^public/ {print $2}' "$dir/aggregator.txt")" --address "/ip4/127.0.0.1/tcp/$port" \
	--out "$dir/invitations" >"$dir/invited.txt"
head -4 "$dir/invited.txt"

say "the aggregator, the server and 20 clients start (logs go to files)"
fednode aggregator --key "$dir/aggregator.key" --federation "$dir/federation.json" --state "$dir/aggregator" \
	--tickets "$dir/invitations/tickets.json" --invitation "$dir/invitations/aggregator.json" \
	--listen "/ip4/127.0.0.1/tcp/$port" --ops "$ops" >"$dir/aggregator.out" 2>"$dir/aggregator.log" &
aggregator=$!
until grep -q '^listening' "$dir/aggregator.out"; do
	if ! kill -0 "$aggregator" 2>/dev/null; then
		cat "$dir/aggregator.log" >&2
		echo "the aggregator did not start; if a port is in use, choose another: PORT=27946 $0" >&2
		exit 1
	fi
	sleep 0.1
done
clients=()
for k in $(seq 0 19); do
	mkdir "$dir/client-$k" # which has its own user's ratings and nobody else's
	awk -F, -v user=$((k + 1)) 'NR == 1 || $1 == user' deploy/demo/ratings.csv >"$dir/client-$k/ratings.csv"
	fednode client --data "$dir/client-$k/ratings.csv" --invitation "$dir/invitations/client-$k.json" \
		--state "$dir/client-$k/state" --sessions 2 2>"$dir/client-$k.log" &
	clients+=($!)
done
# Two sessions, one after the other: what they cost adds up in each client's ledger, which
# --max-epsilon bounds (default 10).
grep -v -e '^epsilon:' -e '^rounds:' deploy/demo/experiment.yaml >"$dir/experiment.yaml"
session() {
	if ! fednode server "$dir/experiment.yaml" --set "rounds=$1" --set epsilon=5 --invitation "$dir/invitations/server.json" --state "$dir/server" \
		>"$dir/summary.txt" 2>"$dir/server.log"; then
		cat "$dir/server.log" "$dir/aggregator.log" >&2
		exit 1
	fi
}
session 5
say "the first of two sessions has ended; its summary"
cat "$dir/summary.txt"
session 4
for pid in "${clients[@]}"; do
	wait "$pid"
done

say "what the aggregator says of itself: fednode status"
fednode status --ops "$ops"

say "the summary of the second session"
cat "$dir/summary.txt"

say "a client has its own embedding beside those of items, and the server those of items alone"
(cd "$dir" && ls client-0/state/result server/current/)

say "what the first client has agreed to and spent: fednode status --state"
fednode status --state "$dir/client-0/state"

say "what the first client's user might like, told by its own device: fednode recommend"
fednode recommend --state "$dir/client-0/state" --data "$dir/client-0/ratings.csv" --items deploy/demo/items --top 3
