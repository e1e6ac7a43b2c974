#!/bin/bash
# At every start of a machine with a server on it, before that: the data disk is
# mounted and what the kernel forgets is set again.
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
. "${BASH_SOURCE%/*}/paths.sh"
# shellcheck source=/dev/null
. "$PARAMETERS"
system
paths

if [[ $DISK == 1 ]]; then
	for ((i = 0; i < 60; i++)); do
		[[ -b $DEVICE ]] && break
		sleep 1
	done
	mountpoint -q "$MOUNT" || mount "$MOUNT" || mountpoint -q "$MOUNT"
	# Random reads of small pages: 16 KiB ahead.
	blockdev --setra 32 "$DEVICE"
fi

[[ $ROLE != monitoring ]] || exit 0
# Up to 7.0, MongoDB wants no huge pages; from 8.0 on, the allocator lives on
# them.
huge=/sys/kernel/mm/transparent_hugepage
if at_least 8; then
	echo always >$huge/enabled
	echo defer+madvise >$huge/defrag
	echo 0 >$huge/khugepaged/max_ptes_none
else
	echo never >$huge/enabled
	echo never >$huge/defrag
fi
