# shellcheck shell=bash
# Package management, the same words for apt and dnf. Sourced after lib.sh.

# Percona's packages send statistics at installation otherwise.
export PERCONA_TELEMETRY_DISABLE=1 DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
DNF_CONF=/etc/dnf/dnf.conf

# release NAME prints a value of /etc/os-release. That file's own names, such as
# VERSION, are among our parameters.
release() (
	# shellcheck source=/dev/null
	. /etc/os-release
	echo "${!1:-}"
)

# system sets FAMILY: apt or dnf.
system() {
	case " $(release ID) $(release ID_LIKE) " in
	*" debian "*) FAMILY=apt ;;
	*" rhel "* | *" fedora "*) FAMILY=dnf ;;
	*) die "cannot install packages on $(release PRETTY_NAME): it is of neither Debian's family nor Red Hat's" ;;
	esac
}

apt() {
	outside apt-get -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -o Acquire::https::Timeout=20 \
		-o Acquire::http::Timeout=20 -o Dpkg::Options::=--force-confold "$@"
}

# Packages on hold are excluded in dnf's own configuration; we are the ones who
# may touch them.
dnf() {
	outside command dnf -y --disableexcludes=main --setopt=retries=3 --setopt=timeout=20 \
		--setopt=install_weak_deps=False "$@"
}

# configure_all finishes what dpkg was interrupted at. Unlike apt, dpkg does not
# wait for others who are at it, such as an upgrade at a machine's first start.
configure_all() {
	local said tries=0
	until said=$(outside dpkg --configure -a 2>&1); do
		echo "$said"
		[[ $said == *lock* && $((++tries)) -lt 120 ]] || return 1
		sleep 5
	done
}

# refresh reads the package lists, and finishes what a killed run left.
refresh() {
	case $FAMILY in
	apt)
		configure_all
		apt update --error-on=any
		;;
	dnf) dnf makecache --refresh ;;
	esac
}

# install_packages NAME[=VERSION]…
install_packages() {
	local name
	case $FAMILY in
	apt) apt install --no-install-recommends --allow-change-held-packages "$@" ;;
	dnf)
		for name; do
			shift
			set -- "$@" "${name/=/-}"
		done
		dnf install "$@"
		;;
	esac
}

# install_stopped NAME[=VERSION]…: Debian's packages would start their services
# at once, before they are configured.
install_stopped() {
	local failed=0
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
	install_packages "$@" || failed=$?
	rm -f /usr/sbin/policy-rc.d
	return "$failed"
}

# need COMMAND PACKAGE installs what is not there yet.
need() {
	command -v "$1" >/dev/null && return
	[[ $FAMILY == apt ]] && refresh
	install_packages "$2"
}

# installed PACKAGE prints its version, or nothing.
installed() {
	case $FAMILY in
	apt) dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^installed //p' ;;
	dnf) rpm -q --qf '%{VERSION}-%{RELEASE}\n' "$1" 2>/dev/null | grep -v 'not installed' ;;
	esac || true
}

# available PACKAGE prints all versions on offer, the newest last.
available() {
	case $FAMILY in
	apt) apt-cache madison "$1" | awk -F '|' '{ gsub(/ /, "", $2); print $2 }' ;;
	# Lines that are too long for a terminal are wrapped, even without one.
	dnf) dnf -q --showduplicates list --available "$1" | tr -s ' \n' '\n' | awk -v p="$1." 'found { print; found = 0 } index($0, p) == 1 { found = 1 }' ;;
	esac | sort -uV
}

# pick VERSION prints the best of the versions on stdin: the one asked for in
# its newest build, or with an empty VERSION the newest of all. Release
# candidates, which Red Hat's rules number 0.x, are not that version.
pick() {
	local version best=
	while read -r version; do
		case $version in
		"$1"-0.*) ;;
		"$1" | "$1"-* | "$1".[!0-9]*) best=$version ;;
		*) [[ -n $1 ]] || best=$version ;;
		esac
	done < <(sort -V)
	echo "$best"
}

# choose PACKAGE VERSION sets CHOSEN to the package's version to install, or
# ends by saying which there are.
choose() {
	local all
	# Dnf fetches what it does not have by itself, but keeps that for days.
	[[ $FAMILY == dnf ]] || refresh
	all=$(available "$1" || true)
	CHOSEN=$(pick "$2" <<<"$all")
	if [[ -z $CHOSEN && $FAMILY == dnf ]]; then
		refresh
		all=$(available "$1" || true)
		CHOSEN=$(pick "$2" <<<"$all")
	fi
	[[ -n $CHOSEN ]] && return
	result PACKAGE "$1"
	result UNKNOWN_VERSION "$2"
	result AVAILABLE "$(tr '\n' ' ' <<<"$all")"
	die "there is no version $2 of $1 here"
}

# hold PACKAGE…: no upgrade but ours.
hold() {
	case $FAMILY in
	apt) outside apt-mark hold "$@" ;;
	dnf)
		local name held
		held=$(sed -n 's/^excludepkgs=//p' "$DNF_CONF")
		for name; do
			[[ " $held " == *" $name "* ]] || held+=" $name"
		done
		sed -i -e '/^excludepkgs=/d' -e "/^\[main\]/a excludepkgs=${held# }" "$DNF_CONF"
		;;
	esac
}

# percona_release PRODUCT CHANNEL enables a repository of Percona's.
percona_release() {
	if ! command -v percona-release >/dev/null; then
		case $FAMILY in
		apt)
			refresh
			install_packages curl gnupg lsb-release
			fetch https://repo.percona.com/apt/percona-release_latest.generic_all.deb >/var/tmp/percona-release.deb
			install_packages /var/tmp/percona-release.deb
			;;
		dnf) dnf install https://repo.percona.com/yum/percona-release-latest.noarch.rpm ;;
		esac
	fi
	outside percona-release enable "$1" "$2"
}
