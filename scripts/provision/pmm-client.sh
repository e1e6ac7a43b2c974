#!/bin/bash
# A monitored member: the PMM client, registered with the server. Queries are
# not analysed: that would cost the targets something, and not the same.
#   NAME, ROLE, INTERNAL_IP, DEPLOYMENT, REPLICA_SET, ENV_TAG
#   PMM_HOST, PMM_PORT, PMM_PASSWORD
#   PMM_VERSION, PMM_REPOSITORY  of the client, empty for the newest release
#   MONITORING_USER, MONITORING_PASSWORD
# Results: PMM_BUILD, the version of the package.
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
begin
system

have=$(installed pmm-client)
if [[ -z $have ]]; then
	step "installing the PMM client"
	percona_release pmm3-client "${PMM_REPOSITORY:-release}"
	choose pmm-client "$PMM_VERSION"
	install_packages "pmm-client=$CHOSEN"
	have=$(installed pmm-client)
fi
hold pmm-client
enable pmm-agent.service
systemctl start pmm-agent.service

# The passwords go through the environment and a file: arguments are seen by
# everybody, which is why this is not `pmm-admin config --server-url`.
if ! pmm-admin list >/dev/null; then
	step "registering with the PMM server"
	PMM_AGENT_CONFIG_FILE=/usr/local/percona/pmm/config/pmm-agent.yaml \
		PMM_AGENT_SERVER_ADDRESS=$PMM_HOST:$PMM_PORT \
		PMM_AGENT_SERVER_USERNAME=admin PMM_AGENT_SERVER_PASSWORD=$PMM_PASSWORD \
		PMM_AGENT_SERVER_INSECURE_TLS=true PMM_AGENT_SETUP_FORCE=true \
		pmm-agent setup "$INTERNAL_IP" generic "$NAME"
	systemctl restart pmm-agent.service
	pmm-admin status --wait=60s
fi

# An arbiter knows no users: only its machine is watched.
if [[ $ROLE == data ]] && ! grep -qw -- "$NAME" <<<"$(pmm-admin list)"; then
	step "adding the server to monitoring"
	credentials=$(mktemp /etc/sandbox/pmm.XXXXXX)
	printf '{"username": "%s", "password": "%s", "agentpassword": ""}\n' "$MONITORING_USER" "$MONITORING_PASSWORD" >"$credentials"
	added=0
	pmm-admin add mongodb --query-source=none --credentials-source="$credentials" \
		--cluster="$DEPLOYMENT" --replication-set="$REPLICA_SET" --environment="$ENV_TAG" \
		"$NAME" 127.0.0.1:27017 || added=$?
	rm -f "$credentials"
	[[ $added -eq 0 ]] || exit "$added"
fi
result PMM_BUILD "$have"
