# put FILE MODE: stdin is a line with a SHA-256 and then the content. Prints
# "copied", "same" (nothing to do) or "damaged SHA-256" (nothing done).
set -eu
umask 077
to=$1 mode=$2
IFS= read -r want
if [ -d "$to" ]; then
	echo "$to is a directory" >&2
	exit 1
fi
if [ -f "$to" ]; then
	got=$(sha256sum <"$to")
	if [ "${got%% *}" = "$want" ]; then
		chmod -- "$mode" "$to"
		echo same
		exit 0
	fi
fi
tmp=$(mktemp -- "$to.XXXXXXXX")
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 141' PIPE
trap 'exit 143' TERM
cat >"$tmp"
got=$(sha256sum <"$tmp")
if [ "${got%% *}" != "$want" ]; then
	echo "damaged ${got%% *}"
	exit 0
fi
chmod -- "$mode" "$tmp"
sync -- "$tmp"
mv -f -- "$tmp" "$to"
echo copied
