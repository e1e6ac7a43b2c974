# job_remove DIR: deletes the directory of a job that is over.
if alive; then
	echo "the job is running: stop it first" >&2
	exit 1
fi
rm -rf -- "$dir"
