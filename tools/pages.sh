#!/usr/bin/env bash
# Writes the manual pages and completion scripts of both commands: tools/pages.sh DIR
# They lie in DIR/man and DIR/completion, under the names by which shells find them.
set -euo pipefail
dir=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$dir/man" "$dir/completion"
for name in fedsim fednode; do
	go build -o "$dir/$name" "./cmd/$name"
	"$dir/$name" man >"$dir/man/$name.1"
	"$dir/$name" completion bash >"$dir/completion/$name.bash"
	"$dir/$name" completion zsh >"$dir/completion/_$name"
	"$dir/$name" completion fish >"$dir/completion/$name.fish"
	rm "$dir/$name"
done
