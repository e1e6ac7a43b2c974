#!/bin/bash
# The data disk: XFS without access times, found by the name that the cloud
# gives it, whatever the kernel calls it. Data on it are kept.
#   DISK  1 if the machine has one
#   ROLE  says where it belongs
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
. "${BASH_SOURCE%/*}/paths.sh"
begin
system
[[ $DISK == 1 ]] || exit 0
paths

step "preparing the data disk"
for ((i = 0; i < 60; i++)); do
	[[ -b $DEVICE ]] && break
	sleep 1
done
[[ -b $DEVICE ]] || die "the data disk has not appeared: $DEVICE is not there"
need mkfs.xfs xfsprogs

type=$(blkid -p -o value -s TYPE "$DEVICE" || true)
case $type in
xfs) ;;
'') mkfs.xfs -q "$DEVICE" ;;
*) die "the data disk $DEVICE holds a file system of type $type: not touching it" ;;
esac

mkdir -p "$MOUNT"
CHANGED=0
put /etc/fstab 644 < <(
	grep -v "^$DEVICE " /etc/fstab || true
	# Without nofail, a missing disk would keep the machine from starting.
	echo "$DEVICE $MOUNT xfs noatime,nofail 0 0"
)
if [[ $CHANGED == 1 ]]; then
	systemctl daemon-reload
fi
mountpoint -q "$MOUNT" || mount "$MOUNT"
