package mirror

import (
	"fmt"
	"io/fs"
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
	Path   string // absolute
	Mode   fs.FileMode
	Data   []byte
	Append bool // to what is there
}

// Hosts are the names that must resolve to the server's address.
func (r *Repositories) Hosts() []string {
	return []string{hostMongo, hostEnterprise, hostMongoKeys, hostPercona, hostDocker, hostDistribution}
}

// CA is the certificate of the authority, in PEM.
func (r *Repositories) CA() []byte { return r.identity.caPEM }

// RootFiles are what makes a machine trust the mirror as its distribution and
// as the owner of the vendors' names, and nothing else: no key of a vendor is
// in them. Files that a package manager's configuration already has under
// other names, such as /etc/apt/sources.list.d/*, must be removed.
func (r *Repositories) RootFiles(family Family) []File {
	files := []File{
		// The machines of both families have Debian's programs.
		{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: r.identity.caPEM, Append: true},
		{Path: "/usr/local/share/ca-certificates/sandbox-lab.crt", Mode: 0o644, Data: r.identity.caPEM},
	}
	if family == Debian {
		const keyring = "/usr/share/keyrings/sandbox-lab.gpg"
		return append(files,
			File{Path: keyring, Mode: 0o644, Data: r.identity.binary[keyDistribution]},
			File{Path: "/etc/apt/sources.list", Mode: 0o644, Data: fmt.Appendf(nil, "deb [signed-by=%s] http://%s/debian %s main\n", keyring, hostDistribution, r.platform.Codename)})
	}
	const key = "/etc/pki/rpm-gpg/RPM-GPG-KEY-centosofficial"
	repositories := ""
	for _, r := range []struct{ id, name string }{{"baseos", "BaseOS"}, {"appstream", "AppStream"}} {
		repositories += fmt.Sprintf("[%s]\nname=CentOS Stream $releasever - %s\nbaseurl=https://%s/centos/$releasever-stream/%s/$basearch/os/\ngpgcheck=1\ngpgkey=file://%s\nenabled=1\n\n",
			r.id, r.name, hostDistribution, r.name, key)
	}
	return append(files,
		File{Path: key, Mode: 0o644, Data: r.identity.armored[keyDistribution]},
		File{Path: "/etc/yum.repos.d/centos.repo", Mode: 0o644, Data: []byte(repositories)})
}
