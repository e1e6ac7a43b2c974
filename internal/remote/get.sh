# get FILE: prints a line with the file's SHA-256, then its content.
set -eu
sum=$(sha256sum <"$1")
printf '%s\n' "${sum%% *}"
exec cat <"$1"
