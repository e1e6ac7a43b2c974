#!/bin/bash
# The monitoring machine: the PMM server in its container.
#   PMM_IMAGE     such as percona/pmm-server:3
#   PMM_PORT      where it answers on this machine
#   PMM_PASSWORD  of the user admin
. "${BASH_SOURCE%/*}/lib.sh"
. "${BASH_SOURCE%/*}/packages.sh"
begin
system

at_every_start
step "installing a container engine"
case $FAMILY in
apt) need docker docker.io ;;
# Red Hat's family has podman in place of docker; the command is the same.
dnf) need docker podman-docker ;;
esac
if [[ $FAMILY == dnf ]]; then
	# Podman has no daemon: this unit starts containers with --restart always.
	systemctl enable podman-restart.service
	mkdir -p /etc/containers
	touch /etc/containers/nodocker # "Emulate Docker CLI using podman"
else
	systemctl enable --now docker.service
fi

# Podman does not guess the registry.
image=$PMM_IMAGE
[[ ${image%%/*} == *[.:]* || ${image%%/*} == localhost ]] || image=docker.io/$image

if ! docker inspect pmm-server >/dev/null 2>&1; then
	step "starting the PMM server"
	# The password takes effect when the server creates its database. It
	# comes from the environment: arguments are seen by everybody.
	GF_SECURITY_ADMIN_PASSWORD=$PMM_PASSWORD outside docker run -d --restart always \
		-e GF_SECURITY_ADMIN_PASSWORD -e PMM_ENABLE_TELEMETRY=false \
		-p "$PMM_PORT:8443" -v pmm-data:/srv --name pmm-server "$image"
elif [[ $(docker inspect -f '{{.State.Running}}' pmm-server) != true ]]; then
	outside docker start pmm-server
fi

step "waiting for the PMM server"
for ((i = 0; i < 300; i++)); do
	if docker exec pmm-server curl -fsS http://127.0.0.1:8080/v1/server/readyz; then
		exit 0
	fi
	sleep 1
done
die "the PMM server is not ready after 5 minutes: see docker logs pmm-server"
