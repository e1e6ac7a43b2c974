# shellcheck shell=bash
# What every script here shares. They run as root, read their parameters from
# a file that only root may read, and may be run again at any time.
#
# stdout: NAME=VALUE lines for the caller. STEP says what is being done; the
# others are results. stderr: why it failed. Everything that commands print is
# in $LOG, so that a script whose caller has gone away still comes to its end.

set -euo pipefail
export LC_ALL=C
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

PARAMETERS=/etc/sandbox/machine.env
LOG=/var/log/sandbox-provision.log
LOCK=/run/sandbox-provision.lock

# begin reads the parameters, waits for a run that is still under way, and
# sends what is printed from here on to the log.
begin() {
	# shellcheck source=/dev/null
	. "$PARAMETERS"
	touch "$LOG"
	chmod 600 "$LOG"
	exec 3>&1 4>&2 9>"$LOCK" >>"$LOG" 2>&1 </dev/null
	if ! flock -n 9; then
		step "waiting for an earlier run"
		flock -w 1800 9
	fi
	OFFSET=$(stat -c %s "$LOG")
	echo "=== $(date -u +%FT%TZ) $0"
	trap 'failed $?' EXIT
}

# tell writes to the caller, who may have gone away.
tell() {
	(
		trap '' PIPE
		printf '%s\n' "$2" >&"$1"
	) 2>/dev/null || true
}

step() {
	echo "--- $*"
	tell 3 "STEP=$*"
}

result() { tell 3 "$1=$2"; }

# die ends with a reason, in place of the log's last lines.
die() {
	echo "$*"
	tell 4 "$*"
	trap - EXIT
	exit 1
}

failed() {
	[[ $1 -eq 0 ]] || tell 4 "$(tail -c "+$((OFFSET + 1))" "$LOG" | tail -n 12)"
}

# outside runs a command that may leave daemons behind without what only this
# script should hold.
outside() { "$@" 3>&- 4>&- 9>&-; }

# put FILE MODE [OWNER] replaces a file with stdin unless it is the same, and
# sets CHANGED if it did (not so at the end of a pipe).
put() {
	local tmp
	mkdir -p "${1%/*}"
	tmp=$(mktemp "$1.XXXXXX")
	cat >"$tmp"
	chmod "$2" "$tmp"
	chown "${3:-root:root}" "$tmp"
	if cmp -s "$tmp" "$1"; then
		rm "$tmp"
		chmod "$2" "$1"
		chown "${3:-root:root}" "$1"
	else
		mv "$tmp" "$1"
		# shellcheck disable=SC2034 # read by the scripts that restart something
		CHANGED=1
	fi
}

# enable UNIT makes it start with the machine, and has systemd see what has
# changed of it. That costs every unit on the machine a moment: not without
# need.
enable() {
	if ! systemctl -q is-enabled "$1"; then
		systemctl enable "$1" # reloads
	elif [[ ${CHANGED:-0} == 1 ]]; then
		systemctl daemon-reload
	fi
}

# at_every_start runs boot.sh now and whenever the machine starts.
at_every_start() {
	CHANGED=0
	put /etc/systemd/system/sandbox-boot.service 644 <<UNIT
[Unit]
Description=Data disk and kernel settings for what runs here
After=local-fs.target
Before=mongod.service docker.service podman-restart.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash ${BASH_SOURCE%/*}/boot.sh

[Install]
WantedBy=multi-user.target
UNIT
	enable sandbox-boot.service
	systemctl start sandbox-boot.service
	# Not by restarting the unit, which would restart mongod with it.
	"${BASH_SOURCE%/*}/boot.sh"
}

# fetch URL: to stdout.
fetch() { curl -fsSL --retry 3 --connect-timeout 20 --max-time 300 "$1"; }

# at_least MAJOR: whether the server's release line is that or a later one.
at_least() { [[ ${SERIES%%.*} -ge $1 ]]; }

# hosts_with_block prints /etc/hosts (stdin) with $1, lines "address name", in
# a block of its own at the top: the first line for a name wins.
hosts_with_block() {
	printf '# sandbox: begin\n%s\n# sandbox: end\n' "$1"
	sed '/^# sandbox: begin$/,/^# sandbox: end$/d'
}
