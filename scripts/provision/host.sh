#!/bin/bash
# Every machine: it knows the others by name, and nothing runs on it at times
# of its own choosing.
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
begin
system

step "learning the names of the other machines"
hosts=$(hosts_with_block "$HOSTS" </etc/hosts)
# In place: the file may be a mount of its own.
[[ $hosts == "$(</etc/hosts)" ]] || printf '%s\n' "$hosts" >/etc/hosts

step "turning off automatic updates"
# The firewall is the cloud's; one here would cost every packet.
units=$(systemctl list-unit-files --no-legend apt-daily.timer apt-daily-upgrade.timer apt-daily.service \
	apt-daily-upgrade.service unattended-upgrades.service dnf-automatic.timer dnf-makecache.timer packagekit.service \
	mlocate-updatedb.timer plocate-updatedb.timer man-db.timer firewalld.service | awk '$2 != "masked" { print $1 }')
if [[ -n $units ]]; then
	xargs systemctl mask --now <<<"$units"
fi

need curl curl
