#!/bin/bash
# A member: the server in the exact version, configured and running. The
# replica set is initiated from outside.
#   DISTRIBUTION  community, enterprise or psmdb
#   RELEASE       release line as the vendor names it: 9.0, psmdb-80
#   SERIES        release line as X.Y
#   VERSION       exact, for psmdb with or without the build number
#   REPOSITORY    psmdb: release, testing, experimental
#   CACHE_GB      of the storage engine, empty for the server's default
#   REPLICA_SET, INTERNAL_IP, KEYFILE
# Results: BUILD, the version of the package.
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
. "${BASH_SOURCE%/*}/paths.sh"
begin
system
paths

case $DISTRIBUTION in
community) server=mongodb-org-server shell=mongodb-mongosh ;;
enterprise) server=mongodb-enterprise-server shell=mongodb-mongosh ;;
psmdb) server=percona-server-mongodb-server shell=percona-mongodb-mongosh ;;
*) die "unknown distribution $DISTRIBUTION" ;;
esac

# mongodb_repository adds one of MongoDB's. Packages are checked against the
# key of the release line.
mongodb_repository() {
	local host=repo.mongodb.org product=mongodb-org component=main key
	[[ $DISTRIBUTION == community ]] || host=repo.mongodb.com product=mongodb-enterprise
	# One key serves a major version; up to 8 it is named after its first
	# release line.
	key=server-${SERIES%%.*}
	at_least 9 || key+=.0
	case $FAMILY in
	apt)
		need curl curl
		[[ $(release ID) != ubuntu ]] || component=multiverse
		fetch "https://pgp.mongodb.com/$key.asc" >"/usr/share/keyrings/mongodb-$key.asc"
		put "/etc/apt/sources.list.d/$product-$SERIES.list" 644 <<LIST
deb [signed-by=/usr/share/keyrings/mongodb-$key.asc] https://$host/apt/$(release ID) $(release VERSION_CODENAME)/$product/$SERIES $component
LIST
		;;
	dnf)
		put "/etc/yum.repos.d/$product-$SERIES.repo" 644 <<REPO
[$product-$SERIES]
name=MongoDB $SERIES
baseurl=https://$host/yum/redhat/$(release VERSION_ID | cut -d. -f1)/$product/$SERIES/$(uname -m)/
gpgcheck=1
gpgkey=https://pgp.mongodb.com/$key.asc
REPO
		;;
	esac
}

have=$(installed "$server")
if [[ -z $have || -z $(installed "$shell") ]]; then
	step "adding the repository of $RELEASE"
	# One that does not exist, of a release that was mistyped, would fail every
	# later look at the package lists.
	rm -f /etc/apt/sources.list.d/mongodb-{org,enterprise}-*.list /etc/yum.repos.d/mongodb-{org,enterprise}-*.repo
	case $DISTRIBUTION in
	psmdb) percona_release "$RELEASE" "${REPOSITORY:-release}" ;;
	*)
		[[ ${REPOSITORY:-release} == release ]] || die "there is no channel $REPOSITORY of $DISTRIBUTION packages"
		mongodb_repository
		;;
	esac
	choose "$server" "$VERSION"
	step "installing $server $CHOSEN"
	install_stopped "$server=$CHOSEN" "$shell"
	have=$(installed "$server")
fi
[[ -n $(pick "$VERSION" <<<"$have") ]] ||
	die "$server $have is installed here and $VERSION is asked for: run sandbox down first"
hold "$server" "$shell"
if systemctl cat percona-telemetry-agent.service >/dev/null 2>&1; then
	systemctl mask --now percona-telemetry-agent.service
fi

step "configuring mongod"
CHANGED=0
user=$(systemctl show -p User --value mongod.service)
install -d -o "$user" -g "$user" -m 755 "$DBPATH" "$LOGDIR"
if command -v restorecon >/dev/null; then
	restorecon -R "$DBPATH" "$LOGDIR"
fi
put /etc/mongod.keyfile 400 "$user:$user" <<<"$KEYFILE"
cache=
if [[ -n $CACHE_GB ]]; then
	printf -v cache '  wiredTiger:\n    engineConfig:\n      cacheSizeGB: %s\n' "$CACHE_GB"
fi
conf=$(
	cat <<CONF
# Written by sandbox.
storage:
  dbPath: $DBPATH
${cache}systemLog:
  destination: file
  path: $LOGDIR/mongod.log
  logAppend: true
net:
  port: 27017
  bindIp: 127.0.0.1,$INTERNAL_IP
replication:
  replSetName: "$REPLICA_SET"
security:
  authorization: enabled
  keyFile: /etc/mongod.keyfile
CONF
	# A server that does not know it would not start.
	if grep -qF perconaTelemetry "$(command -v mongod)"; then
		printf 'setParameter:\n  perconaTelemetry: false\n'
	fi
)
put /etc/mongod.conf 644 <<<"$conf"

# The vendors' units differ: one forks, limits and environment are not the
# same. What is compared should be started in one way.
put /etc/systemd/system/mongod.service.d/sandbox.conf 644 <<UNIT
[Unit]
Requires=sandbox-boot.service
After=sandbox-boot.service network-online.target
Wants=network-online.target

[Service]
Type=simple
PIDFile=
ExecStartPre=
ExecStart=
ExecStart=/usr/bin/mongod --config /etc/mongod.conf
LimitNOFILE=64000
LimitNPROC=64000
LimitMEMLOCK=infinity
TasksMax=infinity
$(if at_least 8; then echo Environment=GLIBC_TUNABLES=glibc.pthread.rseq=0; fi)
UNIT
enable mongod.service

if [[ $CHANGED == 1 ]] || ! systemctl -q is-active mongod.service; then
	step "starting mongod"
	systemctl restart mongod.service
fi
for ((i = 0; i < 240; i++)); do
	if (exec 5<>/dev/tcp/127.0.0.1/27017) 2>/dev/null; then
		result BUILD "$have"
		exit 0
	fi
	systemctl -q is-active mongod.service || break
	sleep 0.5
done
echo "mongod does not answer on port 27017; the end of its log:"
tail -n 10 "$LOGDIR/mongod.log" || true
exit 1
