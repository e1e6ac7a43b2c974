# job_start DIR UNIT RUNNER COMMAND SYSTEMD: makes DIR, puts the RUNNER script
# and the COMMAND into it, and starts the one on the other. Prints the
# absolute DIR. Exits 73 when DIR exists.
set -eu
umask 077
dir=$1 unit=$2 runner=$3 command=$4 systemd=$5
mkdir -p -- "$(dirname -- "$dir")"
if [ -e "$dir" ]; then exit 73; fi
mkdir -- "$dir"
dir=$(cd -- "$dir" && pwd -P)
trap '[ -e "$dir/pid" ] || rm -rf -- "$dir"' EXIT
case $dir in
*[!A-Za-z0-9._/-]*)
	echo "the job directory $dir has characters other than letters, digits and ._-/" >&2
	exit 1
	;;
esac
printf '%s\n' "$runner" >"$dir/run"
printf '%s\n' "$command" >"$dir/command"
: >"$dir/log"

manager=setsid
sudo=
if [ -d "$systemd" ] && command -v systemd-run >/dev/null; then
	if [ "$(id -u)" = 0 ]; then
		manager=systemd
	elif sudo -n true 2>/dev/null; then
		manager=systemd
		sudo='sudo -n --'
	fi
fi
echo "$manager" >"$dir/manager"
case $manager in
systemd)
	# A unit outlives the session even where logout ends all its processes.
	# SIGTERM goes to the runner alone; what is left at the end is killed.
	# shellcheck disable=SC2086 # $sudo is words
	$sudo systemd-run --quiet --collect --unit="$unit" \
		--uid="$(id -u)" --gid="$(id -g)" \
		--property=KillMode=mixed --property=TimeoutStopSec=60 --property=LimitNOFILE=64000 \
		--setenv=HOME="$HOME" --setenv=PATH="$PATH" \
		/bin/sh "$dir/run" "$dir"
	;;
setsid)
	setsid /bin/sh "$dir/run" "$dir" </dev/null >"$dir/log" 2>&1 &
	;;
esac
tries=0
while [ ! -e "$dir/pid" ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 200 ]; then
		echo "the job did not start within 10 s under $manager" >&2
		cat -- "$dir/log" >&2
		exit 1
	fi
	sleep 0.05
done
echo "$dir"
