package mirror

import (
	"fmt"
	"io/fs"
	"strings"
)

// Family is a kind of machine.
type Family string

// The families.
const (
	Debian Family = "debian" // also when it calls itself Ubuntu
	EL9    Family = "el9"
)

// File is a file that a machine's root file system must have.
type File struct {
	Path string // absolute
	Mode fs.FileMode
	Data []byte
}

// Hosts are the names that must resolve to the server's address.
func (r *Repositories) Hosts() []string {
	return []string{hostMongo, hostEnterprise, hostMongoKeys, hostPercona, hostDocker, hostDistribution}
}

// CA is the certificate, in PEM, of the authority that machines must trust.
func (r *Repositories) CA() []byte { return r.identity.caPEM }

// RootFiles are what makes the mirror a machine's distribution. No key of a
// vendor is in them.
func (r *Repositories) RootFiles(family Family) []File {
	if family == Debian {
		const keyring = "/usr/share/keyrings/distribution.gpg"
		sources := fmt.Sprintf("deb [signed-by=%s] http://%s/debian %s main\n", keyring, hostDistribution, r.platform.Codename)
		return []File{
			{Path: keyring, Mode: 0o644, Data: r.identity.binary[keyDistribution]},
			// In place of what mmdebstrap leaves there.
			{Path: "/etc/apt/sources.list.d/0000sources.list", Mode: 0o644, Data: []byte(sources)},
		}
	}
	const key = "/etc/pki/rpm-gpg/RPM-GPG-KEY-centosofficial"
	var repositories strings.Builder
	for _, name := range []string{"BaseOS", "AppStream"} {
		_, _ = fmt.Fprintf(&repositories, "[%s]\nname=CentOS Stream $releasever - %s\nbaseurl=https://%s/centos/$releasever-stream/%s/$basearch/os/\ngpgcheck=1\ngpgkey=file://%s\n\n",
			strings.ToLower(name), name, hostDistribution, name, key)
	}
	return []File{
		{Path: key, Mode: 0o644, Data: r.identity.armored[keyDistribution]},
		{Path: "/etc/yum.repos.d/centos.repo", Mode: 0o644, Data: []byte(repositories.String())},
	}
}
