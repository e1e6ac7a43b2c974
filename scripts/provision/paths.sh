# shellcheck shell=bash
# Where things are, as the packages of each family have it. Sourced after
# packages.sh; needs system.

# shellcheck disable=SC2034 # read by the scripts that source this
DEVICE=/dev/disk/by-id/google-data

# paths sets DBPATH, LOGDIR and MOUNT.
# shellcheck disable=SC2034 # read by the scripts that source this
paths() {
	DBPATH=/var/lib/mongodb
	LOGDIR=/var/log/mongodb
	if [[ $FAMILY == dnf ]]; then
		DBPATH=/var/lib/mongo
		[[ ${DISTRIBUTION:-} == psmdb ]] && LOGDIR=/var/log/mongo
	fi
	MOUNT=$DBPATH
	if [[ $ROLE == monitoring ]]; then
		MOUNT=/var/lib/docker
		[[ $FAMILY == dnf ]] && MOUNT=/var/lib/containers
	fi
	return 0
}
