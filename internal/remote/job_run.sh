# job_run DIR: runs DIR/command with its output in DIR/log, says in DIR/pid
# who it is (pid, start time, boot) and in DIR/exit how the command ended.
set -u
dir=$1
cd -- "$dir" || exit 1
child=
asked=
trap '' HUP
trap 'asked=1; [ -z "$child" ] || kill -TERM "$child"' TERM INT

stat=$(cat "/proc/$$/stat")
# The fields after the name, which may hold anything: state is the first.
# shellcheck disable=SC2086
set -- ${stat##*) }
umask 077
echo "$$ ${20} $(cat /proc/sys/kernel/random/boot_id)" >pid.new
mv -f pid.new pid

# shellcheck disable=SC1091 # made by job_start
. ./command
umask 022
"$@" </dev/null >>log 2>&1 &
child=$!
[ -z "$asked" ] || kill -TERM "$child"
while :; do
	wait "$child"
	status=$?
	# A signal to us ends the wait, not the child.
	kill -0 "$child" 2>/dev/null || break
done
umask 077
echo "$status" >exit.new
sync exit.new log
mv -f exit.new exit
exit "$status"
