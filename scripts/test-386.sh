#!/usr/bin/env bash
# Run the tests that pin the workload's bytes and streams as a 32-bit program. Where the
# kernel cannot run one, qemu-i386 (Debian: qemu-user) does; without it they
# are only built, and that is said.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tests='Golden|Stream|Below|Permutation|Chain|PassFingerprint$|SequenceID|RandomAccess'
export GOARCH=386 CGO_ENABLED=0
printf 'package main\n\nfunc main() {}\n' >"$dir/main.go"
go build -o "$dir/probe" "$dir/main.go"

if "$dir/probe" 2>/dev/null; then
	go test -run "$tests" ./internal/workload
elif command -v qemu-i386 >/dev/null; then
	# Signals between its threads are more than the emulator can take.
	go test -exec "env GODEBUG=asyncpreemptoff=1 qemu-i386" -timeout 20m -run "$tests" ./internal/workload
else
	go test -c -o /dev/null ./internal/workload
	echo "NOT RUN: this kernel runs no 386 programs and qemu-i386 is not installed; the tests were only built"
fi
