//go:build linux

// Package machines is a stand-in for the machines of a cloud: real Linux
// systems with systemd, sshd, apt or dnf, in namespaces of this machine.
//
// In go Machines as the compute API describes them (name, addresses, image,
// metadata's ssh-keys, disks); out come systems that boot in seconds, are
// reached with ssh under their external address, find their data disk as
// /dev/disk/by-id/google-<device name> and are rebooted, cut off and killed
// at will. Two package families: Debian 12, which can call itself Ubuntu
// 24.04, and a look-alike of CentOS Stream 9 with a real dnf and an RPM
// database.
//
// Everything happens inside a lab, which a test enters with Main: network,
// mount, PID and IPC namespaces of its own, so that the kernel ends every
// process, mount and interface with it, whatever kills it. The lab has no way
// out to any other network. In it,
//
//   - Gateway is the address of the test itself. It serves there what machines
//     may reach: package repositories, on the ports that these use.
//   - Machines resolve the names that Options.Hosts lists, and no other;
//     Lab.Lookups tells what else they asked for.
//   - From the test, a machine answers under its external address alone. What
//     listens on the internal address is reached from machines only, as behind
//     a firewall that lets ssh in.
//
// What differs from real machines: one kernel for all; firewall rules, the
// metadata server and startup scripts do not exist; knobs of the kernel that
// are not per namespace (vm, some of kernel and fs, transparent huge pages)
// are files of the machine that start with the real values on each boot; the
// external address is known to the machine; a data disk is never larger than
// MaxDisk; resource limits end where this machine's do, unless it lets root
// raise them.
//
// A machine takes six of the inotify instances that root may have, often 128:
// labs with many machines cannot run at the same time (go test -p 1).
//
// Root is needed, and the Debian packages mmdebstrap, systemd-container,
// iproute2 and openssh-client. The root file systems are built once, from the
// apt sources of this machine, into the user's cache folder.
package machines
