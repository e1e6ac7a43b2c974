package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// pmmServer is what of PMM's server provisioning talks to: readiness, the
// password of the user admin, and the inventory.
type pmmServer struct {
	file    string // in the volume
	started time.Time

	mu          sync.Mutex
	PasswordSum string       `json:"password_sha256"`
	Nodes       []pmmNode    `json:"nodes"`
	Services    []pmmService `json:"services"`
}

type pmmNode struct {
	ID      string `json:"node_id"`
	Name    string `json:"node_name"`
	Address string `json:"address"`
	Type    string `json:"node_type,omitempty"`
	Force   bool   `json:"reregister,omitempty"`
}

type pmmService struct {
	ID             string `json:"service_id"`
	Name           string `json:"service_name"`
	NodeID         string `json:"node_id"`
	Address        string `json:"address"`
	Cluster        string `json:"cluster"`
	ReplicationSet string `json:"replication_set"`
	Environment    string `json:"environment"`
	QuerySource    string `json:"query_source"`
}

// startTime is how long the server says that it is not ready.
const startTime = time.Second

func (s *pmmServer) load() error {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, s)
}

func (s *pmmServer) save() error { return writeJSON(s.file, s) }

// serveContainer is the container's process, until it is told to stop.
func serveContainer(e *engine, name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	c, err := e.load(name)
	if err != nil {
		return err
	}
	s := &pmmServer{file: e.volumeFile(c.Volume), started: time.Now()}
	if err := s.load(); err != nil {
		return err
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	outside, err := tls.Listen("tcp", ":"+c.Port, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}})
	if err != nil {
		return err
	}
	_ = os.Remove(e.socket(name))
	inside, err := net.Listen("unix", e.socket(name))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(false), ReadHeaderTimeout: time.Minute}
	local := &http.Server{Handler: s.handler(true), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(outside) }()
	go func() { failed <- local.Serve(inside) }()
	fmt.Println("stand-in for PMM's server on port", c.Port)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	_ = server.Close()
	_ = local.Close()
	return err
}

func (s *pmmServer) handler(inside bool) http.Handler {
	mux := http.NewServeMux()
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(s.started) < startTime {
			http.Error(w, `{"message": "PMM Server is not ready yet."}`, http.StatusInternalServerError)
			return
		}
		answer(w, struct{}{})
	}
	mux.HandleFunc("GET /v1/readyz", ready)
	mux.HandleFunc("GET /v1/server/readyz", ready)
	api := func(pattern string, do func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			user, password, _ := r.BasicAuth()
			if user != "admin" || subtle.ConstantTimeCompare([]byte(checksum(password)), []byte(s.PasswordSum)) != 1 {
				http.Error(w, `{"code": 16, "message": "Unauthorized"}`, http.StatusUnauthorized)
				return
			}
			do(w, r)
		})
	}
	api("GET /v1/server/version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]string{"version": "3.5.0"})
	})
	api("PUT /graph/api/user/password", s.changePassword)
	api("POST /v1/management/nodes", s.addNode)
	api("POST /v1/management/services", s.addService)
	api("GET /v1/inventory/nodes", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string][]pmmNode{"generic": s.Nodes})
	})
	api("GET /v1/inventory/services", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string][]pmmService{"mongodb": s.Services})
	})
	if inside {
		mux.HandleFunc("POST /standin/password", func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(io.LimitReader(r.Body, 1024))
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil {
				s.PasswordSum = checksum(string(text))
				err = s.save()
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	return mux
}

func (s *pmmServer) changePassword(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Old string `json:"oldPassword"`
		New string `json:"newPassword"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.New == "" || checksum(body.Old) != s.PasswordSum {
		http.Error(w, `{"message": "invalid old password"}`, http.StatusUnauthorized)
		return
	}
	s.PasswordSum = checksum(body.New)
	s.finish(w, map[string]string{"message": "User password changed"})
}

func (s *pmmServer) addNode(w http.ResponseWriter, r *http.Request) {
	var n pmmNode
	if err := strict(r.Body, &n); err != nil || n.Name == "" || n.Address == "" {
		http.Error(w, `{"message": "bad node"}`, http.StatusBadRequest)
		return
	}
	for _, other := range s.Nodes {
		if other.Name != n.Name {
			continue
		}
		if !n.Force {
			http.Error(w, fmt.Sprintf(`{"code": 6, "message": "Node with name %s already exists."}`, n.Name), http.StatusConflict)
			return
		}
		s.Services = slices.DeleteFunc(s.Services, func(x pmmService) bool { return x.NodeID == other.ID })
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(x pmmNode) bool { return x.Name == n.Name })
	n.ID, n.Force = newID(), false
	s.Nodes = append(s.Nodes, n)
	s.finish(w, n)
}

func (s *pmmServer) addService(w http.ResponseWriter, r *http.Request) {
	var v pmmService
	if err := strict(r.Body, &v); err != nil || v.Name == "" || !slices.ContainsFunc(s.Nodes, func(n pmmNode) bool { return n.ID == v.NodeID }) {
		http.Error(w, `{"message": "bad service or unknown node"}`, http.StatusBadRequest)
		return
	}
	if slices.ContainsFunc(s.Services, func(x pmmService) bool { return x.Name == v.Name }) {
		http.Error(w, fmt.Sprintf(`{"code": 6, "message": "Service with name %s already exists."}`, v.Name), http.StatusConflict)
		return
	}
	v.ID = newID()
	s.Services = append(s.Services, v)
	s.finish(w, v)
}

// finish stores the change and answers.
func (s *pmmServer) finish(w http.ResponseWriter, value any) {
	if err := s.save(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, value)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func strict(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// selfSigned is the kind of certificate that the real server starts with.
func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// insideClient speaks to a container over its socket.
func insideClient(socket string) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
}
