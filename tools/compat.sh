#!/usr/bin/env bash
# Makes the files of a released version that later ones must read (docs/compatibility.md):
#
#	tools/compat.sh v0.1 path/to/fedsim path/to/fednode
#
# The two commands must be those of the release. PORT (default 17946) is where the
# aggregator listens. It takes seconds; check in what it leaves.
set -euo pipefail
version=$1
fedsim=$(realpath "$2")
fednode=$(realpath "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
demo=$PWD/deploy/demo
runs=$PWD/cmd/fedsim/command/testdata/compat/$version
state=$PWD/cmd/fednode/command/testdata/compat/$version
mkdir "$runs" "$state"

# Runs of each kind of party, with what the release itself says of them.
cd "$runs"
mkdir films
cp "$demo/items/movies.csv" "$demo/ratings.csv" films
run() {
	local name=$1
	shift
	"$fedsim" run --data films --out finished --name "$name" --rank 2 --baselines quick "$@" >/dev/null
	"$fedsim" recommend --run "finished/$name" --user 3 --top 5 --format json >"$name.recommend.json"
	"$fedsim" similar --run "finished/$name" --item "Nine Rivers" --top 5 --format json >"$name.similar.json"
}
run lfl-sgdmf --algorithm lfl-sgdmf --contribution all-ratings --rounds 2
run vfl-sgdmf --algorithm vfl-sgdmf --parties 2 --rounds 2
run ssp-c --algorithm ssp-c --features none --epsilon inf --rounds 2
run sgd-mf --algorithm sgd-mf --set model.epochs=3

# A session of 20 clients. One of them, the aggregator and the server leave their state.
dir=$(mktemp -d)
pids=()
finish() {
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || true # has ended already
	done
	wait
	rm -rf "$dir"
}
trap finish EXIT
cd "$dir"
port=${PORT:-17946}
"$fednode" keygen operator.key >/dev/null
public=$("$fednode" keygen aggregator.key | awk '/^public/ {print $2}')
"$fednode" invite --operator operator.key --federation federation.json --name Demo --clients 20 \
	--aggregator-key "$public" --address "/ip4/127.0.0.1/tcp/$port" --out invitations >/dev/null
"$fednode" aggregator --key aggregator.key --federation federation.json --state aggregator --tickets invitations/tickets.json \
	--invitation invitations/aggregator.json --listen "/ip4/127.0.0.1/tcp/$port" --ops "" >aggregator.out 2>aggregator.log &
aggregator=$!
pids+=("$aggregator")
"$fednode" client --data "$demo/ratings.csv" --user 1 --invitation invitations/client-0.json --state client 2>client.log &
client=$!
"$fednode" client --data "$demo/ratings.csv" --users 1..19 --ids "$demo/users.txt" --invitations invitations --state others 2>others.log &
pids+=("$client" "$!")
"$fednode" server "$demo/experiment.yaml" --items "$demo/items" --set rounds=2 --invitation invitations/server.json --state server >/dev/null
wait "$client" "${pids[2]}"
"$fednode" invite --operator operator.key --federation federation.json --aggregator-key "$public" \
	--address "/ip4/127.0.0.1/tcp/$port" --out invitations --revoke "client 5" >/dev/null
kill "$aggregator"
wait "$aggregator"
pids=()
cp invitations/{revocations,tickets,client-1}.json .
# One archive: the logs have pages of zeros, and the modes of secret files matter.
mkdir -p "$state"
tar --sort=name --owner=0 --group=0 --mtime=2026-01-01 --exclude='*.lock' -cf - \
	federation.json revocations.json tickets.json client-1.json aggregator.key client aggregator server | gzip -9n >"$state/state.tar.gz"
