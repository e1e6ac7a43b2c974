# job_stop DIR TENTHS: SIGTERM, TENTHS of a second of grace, SIGKILL.
alive || exit 0
: >"$dir/stopped"
kill -TERM "$pid" || :
left=$2
kills=0
while alive; do
	if [ "$left" -le 0 ]; then
		if [ "$kills" -ge 3 ]; then
			echo "process $pid does not die" >&2
			exit 1
		fi
		kill -s KILL -- "-$pid" || :
		kills=$((kills + 1))
		left=50
	fi
	left=$((left - 1))
	sleep 0.1
done
# What the command left behind in its session.
kill -s KILL -- "-$pid" 2>/dev/null || :
