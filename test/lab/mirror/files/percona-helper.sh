#!/bin/bash
# Stand-in of a test: what the package does as root before every start.
logs=/var/log/mongodb defaults=/etc/default/mongod
[[ ! -f /etc/redhat-release ]] || logs=/var/log/mongo defaults=/etc/sysconfig/mongod
touch $logs/mongod.stdout $logs/mongod.stderr
chown -R mongod:mongod $logs
if command -v numactl >/dev/null && numactl --interleave=all true 2>/dev/null; then
	grep -q '^NUMACTL=' $defaults || echo 'NUMACTL="numactl --interleave=all"' >>$defaults
fi
exit 0
