# job_follow DIR FIRST: prints the log from byte FIRST (1 is the first) until
# the job is over.
if alive; then
	exec tail -c "+$2" -s 0.5 --pid="$pid" -f -- "$dir/log"
fi
exec tail -c "+$2" -- "$dir/log"
