package mirror

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server answers for all hosts of the repositories.
type Server struct {
	repositories *Repositories
	servers      []*http.Server
	serving      sync.WaitGroup
	stopped      chan struct{}

	mu           sync.Mutex
	requests     []Request
	faults       []*Fault
	certificates map[string]*tls.Certificate
}

// Request is one that the server got.
type Request struct {
	Time   time.Time
	From   string // address of the machine
	Host   string
	Method string
	Path   string
	// Status is the answer's, or 0 when there was none.
	Status int
	// Fault is set when it was answered as a fault has it.
	Fault bool
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s //%s%s from %s: %d", r.Time.Format(time.TimeOnly), r.Method, r.Host, r.Path, r.From, r.Status)
}

// Serve answers on address, ports 80 and 443, until Close.
func (r *Repositories) Serve(address string) (*Server, error) {
	s := &Server{repositories: r, stopped: make(chan struct{}), certificates: map[string]*tls.Certificate{}}
	for _, port := range []string{"80", "443"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("package mirror: %w", err)
		}
		if port == "443" {
			l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate})
		}
		server := &http.Server{Handler: http.HandlerFunc(s.handle), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
		s.servers = append(s.servers, server)
		s.serving.Go(func() { _ = server.Serve(l) })
	}
	return s, nil
}

// Close stops answering.
func (s *Server) Close() error {
	close(s.stopped)
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// Requests returns what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Unknown returns the requests for what is not there and that no fault
// caused: a path that is mistaken, or a package that is missing here.
func (s *Server) Unknown() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Fault || r.Status < 400 })
}

func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := hello.ServerName
	if !slices.Contains(s.repositories.Hosts(), host) {
		s.record(Request{From: hello.Conn.RemoteAddr().String(), Host: host, Method: "TLS", Status: http.StatusMisdirectedRequest})
		return nil, fmt.Errorf("no host %q here", host)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.certificates[host]; c != nil {
		return c, nil
	}
	c, err := s.repositories.identity.certificate(host)
	if err == nil {
		s.certificates[host] = c
	}
	return c, err
}

func (s *Server) record(r Request) {
	r.Time = time.Now()
	if host, _, err := net.SplitHostPort(r.From); err == nil {
		r.From = host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	request := Request{From: r.RemoteAddr, Host: host, Method: r.Method, Path: r.URL.Path}
	name := path.Clean("/" + r.URL.Path)
	fault := s.fault(host, name)
	request.Fault = fault != nil
	switch {
	case fault == nil:
	case fault.Kind == Refuse:
		s.record(request)
		panic(http.ErrAbortHandler) // the connection is closed
	case fault.Kind == Stall:
		s.record(request)
		s.wait(r.Context())
		panic(http.ErrAbortHandler)
	case fault.Kind == Unavailable:
		request.Status = http.StatusServiceUnavailable
		s.record(request)
		http.Error(w, "503 Service Unavailable", request.Status)
		return
	}
	status := http.StatusOK
	switch body, err := s.find(host, name, fault); {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		status = http.StatusMethodNotAllowed
		http.Error(w, "405 Method Not Allowed", status)
	case err != nil:
		status = http.StatusNotFound
		http.Error(w, "404 Not Found", status)
	case body.listing != nil && !strings.HasSuffix(r.URL.Path, "/"):
		status = http.StatusMovedPermanently
		http.Redirect(w, r, name+"/", status)
	case body.listing != nil:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(body.listing)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, name, body.modified, body.content)
		_ = body.close()
	}
	request.Status = status
	s.record(request)
}

func (s *Server) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.stopped:
	}
}

// body is what a path has: a folder's listing or a file.
type body struct {
	listing  []byte
	content  io.ReadSeeker
	modified time.Time
	close    func() error
}

func (s *Server) find(host, name string, fault *Fault) (*body, error) {
	if !slices.Contains(s.repositories.Hosts(), host) {
		return nil, fmt.Errorf("no host %q", host)
	}
	file := filepath.Join(s.repositories.dir, "www", host, filepath.FromSlash(name))
	if fault != nil {
		switch fault.Kind {
		case Unsigned:
			switch base := path.Base(name); base {
			case "InRelease", "Release.gpg":
				return nil, os.ErrNotExist
			}
			other := filepath.Join(s.repositories.dir, "unsigned", host, filepath.FromSlash(name))
			if _, err := os.Stat(other); err == nil {
				file = other
			}
		case Replace:
			file = filepath.Join(fault.Dir, filepath.FromSlash(strings.TrimPrefix(name, fault.Path)))
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(file)
		if err != nil {
			return nil, err
		}
		var list bytes.Buffer
		_, _ = fmt.Fprintf(&list, "<html><head><title>Index of %[1]s</title></head><body><h1>Index of %[1]s</h1>\n", html.EscapeString(name))
		for _, e := range entries {
			entry := e.Name()
			if e.IsDir() {
				entry += "/"
			}
			_, _ = fmt.Fprintf(&list, "<a href=\"%[1]s\">%[1]s</a><br>\n", html.EscapeString(entry))
		}
		return &body{listing: append(list.Bytes(), "</body></html>\n"...)}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	if fault == nil || fault.Kind != Corrupt {
		return &body{content: f, modified: info.ModTime(), close: f.Close}, nil
	}
	data, err := io.ReadAll(f)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	// A letter or digit: white space may not matter.
	for i := len(data) / 3; i < len(data); i++ {
		if c := data[i] | 0x20; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			data[i] ^= 1
			break
		}
	}
	// Of another time, so that what a client has of it already is not used.
	return &body{content: bytes.NewReader(data), modified: time.Now(), close: func() error { return nil }}, nil
}
