#!/usr/bin/env bash
# Run every native fuzz target of the module for a time each (default 20s).
set -euo pipefail

time=${1:-20s}
grep -rlE '^func Fuzz' --include='*_test.go' internal | while read -r file; do
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | while read -r _ target; do
		printf '%s %s\n' "$(dirname "$file")" "$target"
	done
done | sort -u | while read -r dir target; do
	echo "fuzz $dir $target for $time"
	go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x
done
