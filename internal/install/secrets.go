package install

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// The users that Run creates on every deployment, in the database admin.
const (
	AdminUser      = "admin"      // root
	MonitoringUser = "monitoring" // for the PMM client
	BenchmarkUser  = "benchmark"  // reads and writes Database, and sees the servers' state
)

// Database is the one that the benchmark user may write to.
const Database = "airline"

// The files of secrets in the environment's folder, mode 0600.
const (
	AdminPasswordFile      = "admin.password"
	MonitoringPasswordFile = "monitoring.password"
	BenchmarkPasswordFile  = "benchmark.password"
	PMMPasswordFile        = "pmm.password" // of the PMM server's user admin
	keyFile                = "keyfile"
)

// secrets are what members and users authenticate with.
type secrets struct {
	admin, monitoring, benchmark, pmm, key secret.Text
}

// loadSecrets reads the secrets, and generates those that there are not yet.
func loadSecrets(dir string) (secrets, error) {
	var s secrets
	for name, into := range map[string]*secret.Text{
		AdminPasswordFile: &s.admin, MonitoringPasswordFile: &s.monitoring,
		BenchmarkPasswordFile: &s.benchmark, PMMPasswordFile: &s.pmm,
	} {
		var err error
		if *into, err = secret.LoadOrCreate(filepath.Join(dir, name), 24); err != nil {
			return secrets{}, err
		}
	}
	path := filepath.Join(dir, keyFile)
	var err error
	if s.key, err = secret.Read(path); errors.Is(err, fs.ErrNotExist) {
		// MongoDB takes 6 to 1024 characters of the base64 set.
		s.key = secret.New(base64.StdEncoding.EncodeToString([]byte(secret.Generate(96).Reveal())))
		err = s.key.Write(path)
	}
	return s, err
}
