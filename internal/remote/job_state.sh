# job_state DIR: prints phase, status, pid, manager and log (size) as name=value.
phase=lost
if alive; then
	phase=running
elif [ -e "$dir/exit" ]; then
	phase=exited
	echo "status=$(cat "$dir/exit")"
fi
if [ "$phase" != running ] && [ -e "$dir/stopped" ]; then phase=stopped; fi
echo "phase=$phase"
echo "pid=$pid"
echo "manager=$(cat "$dir/manager")"
echo "log=$(stat -c %s "$dir/log")"
