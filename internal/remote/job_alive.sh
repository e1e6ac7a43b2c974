# Goes before the scripts that take a job's DIR as their first parameter.
set -eu
dir=$1
[ -e "$dir/command" ] || exit 66
pid=0 start='' boot=''
if [ -e "$dir/pid" ]; then
	read -r pid start boot <"$dir/pid" || :
fi
# alive: is the process still the one that wrote DIR/pid, and no zombie?
alive() {
	[ "$pid" != 0 ] || return 1
	[ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || return 1
	stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
	stat=${stat##*) }
	[ "${stat%% *}" != Z ] || return 1
	# shellcheck disable=SC2086
	set -- $stat
	[ "${20}" = "$start" ]
}

