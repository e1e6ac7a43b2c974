package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Key is a private key to log in with. It prints as its fingerprint.
type Key struct {
	signer ssh.Signer
	path   string
}

// LoadKey reads a private key of the user's. One that is protected by a
// passphrase is used through the agent at agentSocket ($SSH_AUTH_SOCK), which
// must hold it.
func LoadKey(path, agentSocket string) (*Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read SSH key: %w", err)
	}
	if info.Mode()&fs.ModePerm&0o077 != 0 {
		return nil, fmt.Errorf("read SSH key %s: others may read it (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read SSH key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		signer, err = fromAgent(path, agentSocket, locked.PublicKey)
	}
	if err != nil {
		return nil, fmt.Errorf("read SSH key %s: %w", path, err)
	}
	return &Key{signer: signer, path: path}, nil
}

// LoadOrCreateKey reads the key at path, or generates an ed25519 key and
// stores it there with mode 0600, its public half beside it in path.pub.
func LoadOrCreateKey(path, comment string) (*Key, error) {
	key, err := LoadKey(path, "")
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path, comment); err != nil {
		return nil, fmt.Errorf("create SSH key %s: %w", path, err)
	}
	return LoadKey(path, "")
}

func createKey(path, comment string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600 by definition
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(pem.EncodeToMemory(block))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces a key that another process
	// made in the meantime.
	if err := os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	line := authorizedLine(signer.PublicKey())
	if comment != "" {
		line += " " + comment
	}
	return os.WriteFile(path+".pub", []byte(line+"\n"), 0o644)
}

// AuthorizedKey returns the public half as a line of authorized_keys.
func (k *Key) AuthorizedKey() string { return authorizedLine(k.signer.PublicKey()) }

// Fingerprint returns the SHA-256 fingerprint as ssh-keygen -l shows it.
func (k *Key) Fingerprint() string { return ssh.FingerprintSHA256(k.signer.PublicKey()) }

// Path returns the file that the key was read from.
func (k *Key) Path() string { return k.path }

// String implements fmt.Stringer.
func (k *Key) String() string { return k.Fingerprint() }

func (k *Key) describe() string { return k.Fingerprint() + " (" + k.path + ")" }

func authorizedLine(key ssh.PublicKey) string {
	line := ssh.MarshalAuthorizedKey(key)
	return string(line[:len(line)-1]) // without the line feed
}

// fromAgent finds the agent's key that is the encrypted one at path.
func fromAgent(path, socket string, public ssh.PublicKey) (ssh.Signer, error) {
	if socket == "" {
		return nil, fmt.Errorf("it has a passphrase and there is no agent: start one, then ssh-add %s", quoteWord(path))
	}
	if public == nil { // older formats keep it in a file of its own
		data, err := os.ReadFile(path + ".pub")
		if err != nil {
			return nil, fmt.Errorf("it has a passphrase and no public key to find it by: %w", err)
		}
		if public, _, _, _, err = ssh.ParseAuthorizedKey(data); err != nil {
			return nil, fmt.Errorf("%s.pub: %w", path, err)
		}
	}
	s := agentSigner{socket: socket, public: public}
	held := false
	err := s.ask(func(a agent.ExtendedAgent) error {
		keys, err := a.List()
		for _, key := range keys {
			held = held || string(key.Marshal()) == string(public.Marshal())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("it has a passphrase and the agent does not hold it: ssh-add %s", quoteWord(path))
	}
	return s, nil
}

// agentSigner signs with a key that an agent holds, over a connection that
// lasts as long as the signature takes.
type agentSigner struct {
	socket string
	public ssh.PublicKey
}

func (s agentSigner) ask(f func(agent.ExtendedAgent) error) error {
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return f(agent.NewClient(conn))
}

// PublicKey implements ssh.Signer.
func (s agentSigner) PublicKey() ssh.PublicKey { return s.public }

// Sign implements ssh.Signer.
func (s agentSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (s agentSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	var flags agent.SignatureFlags
	switch algorithm {
	case ssh.KeyAlgoRSASHA256:
		flags = agent.SignatureFlagRsaSha256
	case ssh.KeyAlgoRSASHA512:
		flags = agent.SignatureFlagRsaSha512
	}
	var signature *ssh.Signature
	err := s.ask(func(a agent.ExtendedAgent) (err error) {
		signature, err = a.SignWithFlags(s.public, data, flags)
		return err
	})
	return signature, err
}
