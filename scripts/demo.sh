#!/usr/bin/env bash
# The whole flow on this machine: up, bench, report, down. Takes the path of
# the sandbox binary; works in the current directory and leaves run records
# in runs/.
set -euo pipefail

bin=$(realpath "${1:?usage: demo.sh PATH-OF-SANDBOX}")
file=environments/quickstart.tfvars

step() { # print a command as a user would type it, then run it
	printf '\n$ sandbox %s\n' "$*" >&2
	"$bin" "$@"
}

# Whatever happens, no server stays behind.
trap '"$bin" down -env quickstart >/dev/null 2>&1 || true' EXIT

step up -var-file "$file"
step status -env quickstart
# A pass of 50 commands per worker is sent whole even by a busy machine, so
# that its fingerprint can be compared; the run goes on after it.
step bench -env quickstart --sizes 1k,4k,16k --iterations 2 --duration 4s --ops-per-worker 50
step report
html=$("$bin" report --format html --output auto)
step down -env quickstart

printf '\nThe report as one HTML file, to open in a browser: %s\n' "$html" >&2
