package mirror

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Keys that sign repositories, each in the role of one of the vendors'.
const (
	keyMongo70      = "mongodb-7.0"
	keyMongo80      = "mongodb-8.0" // 8.0, 8.2 and 8.3
	keyMongo9       = "mongodb-9"
	keyPercona      = "percona"
	keyDocker       = "docker"
	keyDistribution = "distribution"
)

func keyNames() []string {
	return []string{keyMongo70, keyMongo80, keyMongo9, keyPercona, keyDocker, keyDistribution}
}

// identity is who the mirror is: a certificate authority and signing keys.
// It is made once per cache, so that root file systems that trust it can be
// cached too.
type identity struct {
	dir   string
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
	caPEM []byte
	// The public keys, by name.
	armored map[string][]byte
	binary  map[string][]byte
}

func openIdentity(ctx context.Context, dir string) (*identity, error) {
	if _, err := os.Stat(filepath.Join(dir, "complete")); errors.Is(err, fs.ErrNotExist) {
		if err := makeIdentity(ctx, dir); err != nil {
			return nil, fmt.Errorf("signing keys: %w", err)
		}
	}
	id := &identity{dir: dir, armored: map[string][]byte{}, binary: map[string][]byte{}}
	var err error
	if id.caPEM, err = os.ReadFile(filepath.Join(dir, "ca.pem")); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	if id.ca, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, err
	}
	id.caKey = pair.PrivateKey.(*ecdsa.PrivateKey)
	for _, name := range keyNames() {
		if id.armored[name], err = os.ReadFile(filepath.Join(dir, name+".asc")); err != nil {
			return nil, err
		}
		if id.binary[name], err = os.ReadFile(filepath.Join(dir, name+".gpg")); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func makeIdentity(ctx context.Context, dir string) error {
	part := dir + ".part"
	for _, d := range []string{part, dir} {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(part, "gnupg"), 0o700); err != nil {
		return err
	}
	id := &identity{dir: part}
	for _, name := range keyNames() {
		if _, err := id.gpg(ctx, "--passphrase", "", "--quick-generate-key", keyUser(name), "rsa3072", "sign", "never"); err != nil {
			return err
		}
		for suffix, form := range map[string]string{".asc": "--armor", ".gpg": "--no-armor"} {
			if _, err := id.gpg(ctx, form, "--output", filepath.Join(part, name+suffix), "--export", keyUser(name)); err != nil {
				return err
			}
		}
	}
	id.stopAgent(ctx)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "sandbox lab"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: der}, "ca.key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(part, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(part, "complete"), nil, 0o600); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

func keyUser(name string) string { return "sandbox lab stand-in for " + name }

func (id *identity) home() string { return filepath.Join(id.dir, "gnupg") }

func (id *identity) gpg(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "", []string{"GNUPGHOME=" + id.home()}, "gpg", append([]string{"--batch", "--yes", "--quiet"}, args...)...)
}

// stopAgent ends the agent that gpg started for this home.
func (id *identity) stopAgent(ctx context.Context) {
	_, _ = output(ctx, "", []string{"GNUPGHOME=" + id.home()}, "gpgconf", "--kill", "gpg-agent")
}

func (id *identity) fingerprint() string {
	h := sha256.New()
	for _, name := range keyNames() {
		_, _ = h.Write(id.binary[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// certificate makes one for a host name, valid for a day.
func (id *identity) certificate(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 1),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, id.ca, &key.PublicKey, id.caKey)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
