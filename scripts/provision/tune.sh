#!/bin/bash
# Kernel settings as MongoDB wants them, by release line, now and at every
# start of the machine.
#   SERIES  release line of the server, such as 8.0
. "${BASH_SOURCE%/*}/lib.sh"
begin

step "tuning the kernel"
{
	echo "vm.swappiness = 1"
	echo "vm.max_map_count = 262144"
	# From 8.0 on, the allocator's per-CPU caches map more than they use.
	if at_least 8; then echo "vm.overcommit_memory = 1"; fi
	echo "net.core.somaxconn = 4096"
	echo "net.ipv4.tcp_keepalive_time = 120"
} | put /etc/sysctl.d/90-sandbox.conf 644
sysctl -q -p /etc/sysctl.d/90-sandbox.conf

at_every_start
