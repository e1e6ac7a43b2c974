// Package remote runs things on other machines over SSH.
//
// In go a Machine (address, user, perhaps a jump host) and Options (key,
// known_hosts file, patience); out comes a Conn, and through it commands with
// streamed output and an exit status, files copied with a checksum and an
// atomic rename, connections through the machine, and jobs that outlive the
// connection. Host keys are learnt on first contact and pinned; a dead peer is noticed by
// keepalive; every wait is bounded by its context.
//
// The machines need a POSIX sh, coreutils and util-linux, no sftp server.
// The package knows nothing of environments, databases or benchmarks, does
// not decide what to retry beyond reaching a machine, never asks a question,
// and takes no secret in an argument: secrets travel as files (WriteFile).
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Machine says where a machine is and as whom to log in.
type Machine struct {
	// Name is what messages call it. Empty means Address.
	Name string
	// Address is a host name or an IP address, without a port.
	Address string
	// Port is the SSH port. Zero means 22.
	Port int
	// User is the account to log in to.
	User string
	// Jump is the machine to go through, or nil to connect directly. Every
	// connection has its own connection to the jump host.
	Jump *Machine
}

func (m Machine) name() string {
	if m.Name != "" {
		return m.Name
	}
	return m.Address
}

func (m Machine) endpoint() string {
	port := m.Port
	if port == 0 {
		port = 22
	}
	return net.JoinHostPort(m.Address, strconv.Itoa(port))
}

// Options says how to connect.
type Options struct {
	// Key is what to authenticate with, here and at the jump host.
	Key *Key
	// KnownHosts is the file that host keys are pinned in. It is created
	// when absent.
	KnownHosts string
	// ConnectTimeout bounds one attempt, from the first packet to the end of
	// the authentication, jump host included. Zero means 15 seconds.
	ConnectTimeout time.Duration
	// KeepAlive is how often an idle peer is asked whether it is there. Zero
	// means 15 seconds.
	KeepAlive time.Duration
	// DeadAfter is how long a peer may leave that question unanswered before
	// the connection is given up. Zero means three times KeepAlive.
	DeadAfter time.Duration
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 15 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.DeadAfter == 0 {
		o.DeadAfter = 3 * o.KeepAlive
	}
	return o
}

// Conn is an open connection to one machine. Its methods may be called from
// several goroutines.
type Conn struct {
	machine Machine
	client  *ssh.Client
	jump    *Conn // owned; nil when connected directly
	done    chan struct{}
	workers sync.WaitGroup

	mu    sync.Mutex
	cause error // why the connection ended; nil while it is open
}

// Dial connects to m once. See WaitReachable for a machine that may still be
// starting. The caller closes the Conn.
func Dial(ctx context.Context, m Machine, o Options) (*Conn, error) {
	c, err := dial(ctx, m, o.withDefaults())
	if err != nil {
		return nil, wrap(m, err)
	}
	return c, nil
}

func dial(ctx context.Context, m Machine, o Options) (*Conn, error) {
	if o.Key == nil || o.KnownHosts == "" {
		return nil, errors.New("a key and a known_hosts file are needed")
	}
	addr := m.endpoint()
	late := fmt.Errorf("no answer within %s", o.ConnectTimeout)
	dialCtx, cancel := context.WithTimeoutCause(ctx, o.ConnectTimeout, late)
	defer cancel()
	// why prefers the reason for which the attempt was cut short.
	why := func(err error) error {
		switch {
		case over(ctx):
			return context.Cause(ctx)
		case over(dialCtx):
			return context.Cause(dialCtx)
		}
		return err
	}

	var jump *Conn
	var stream net.Conn
	var err error
	if m.Jump != nil {
		if jump, err = dial(dialCtx, *m.Jump, o); err != nil {
			return nil, fmt.Errorf("through %s: %w", m.Jump.name(), err)
		}
		stream, err = jump.client.DialContext(dialCtx, "tcp", addr)
	} else {
		stream, err = (&net.Dialer{}).DialContext(dialCtx, "tcp", addr)
	}
	shut := func() {
		if stream != nil {
			_ = stream.Close()
		}
		if jump != nil {
			_ = jump.Close()
		}
	}
	if err != nil {
		shut()
		return nil, &UnreachableError{Address: addr, Err: why(err)}
	}

	attempt := handshake{known: knownHosts{o.KnownHosts}, address: addr, user: m.User, key: o.Key}
	config, err := attempt.config()
	if err != nil {
		shut()
		return nil, err
	}
	stop := context.AfterFunc(dialCtx, shut)
	sc, channels, requests, err := ssh.NewClientConn(stream, addr, config)
	if !stop() && err == nil { // cut short in the last moment
		_ = sc.Close()
		err = dialCtx.Err()
	}
	if err != nil {
		shut()
		return nil, attempt.explain(err, why)
	}

	c := &Conn{machine: m, client: ssh.NewClient(sc, channels, requests), jump: jump, done: make(chan struct{})}
	c.workers.Add(2)
	go c.watch()
	go c.keepAlive(o.KeepAlive, o.DeadAfter)
	return c, nil
}

// handshake is one attempt to agree with a server on keys; it remembers what
// the library's error would not say in a typed way.
type handshake struct {
	known   knownHosts
	address string
	user    string
	key     *Key

	hostKey error // the host key was not accepted, and why
	refused bool  // the server has seen our key and does not want it
}

func (h *handshake) config() (*ssh.ClientConfig, error) {
	algorithms, err := h.known.algorithms(h.address)
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		User:              h.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(h.key.signer)},
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(address string, peer net.Addr, key ssh.PublicKey) error {
			h.hostKey = h.known.check(address, peer, key)
			return h.hostKey
		},
		AuthCallback: func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			if slices.Contains(c.TriedMethods, "publickey") || !slices.Contains(c.AllowedMethods, "publickey") {
				h.refused = true
			}
			return nil, nil // the library picks from Auth
		},
	}, nil
}

func (h *handshake) explain(err error, why func(error) error) error {
	switch {
	case h.hostKey != nil:
		return h.hostKey
	case h.refused:
		return &AuthError{User: h.user, Key: h.key.describe(), Err: err}
	}
	return &UnreachableError{Address: h.address, Err: why(err)}
}

// watch closes done when the connection has ended, for whatever reason.
func (c *Conn) watch() {
	defer c.workers.Done()
	err := c.client.Wait()
	if err == nil || errors.Is(err, io.EOF) {
		err = errors.New("closed by the other side")
	}
	c.mu.Lock()
	if c.cause == nil {
		c.cause = err
	}
	c.mu.Unlock()
	close(c.done)
}

// keepAlive asks the peer every so often whether it is there, and gives the
// connection up when it leaves the question unanswered.
func (c *Conn) keepAlive(every, deadAfter time.Duration) {
	defer c.workers.Done()
	answered := make(chan struct{}, 1)
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-timer.C:
		}
		go func() {
			// Any answer will do. An error means that the connection ended.
			_, _, _ = c.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- struct{}{}
		}()
		timer.Reset(deadAfter)
		select {
		case <-answered:
			timer.Reset(every)
		case <-timer.C:
			c.giveUp(fmt.Errorf("no answer to keepalive for %s", deadAfter))
			<-answered // the closed connection ends the request
			return
		case <-c.done:
			<-answered
			return
		}
	}
}

// giveUp ends the connection because of cause.
func (c *Conn) giveUp(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	_ = c.client.Close()
	if c.jump != nil {
		_ = c.jump.client.Close() // frees a stream whose far end is silent
	}
}

// errClosed is the cause of a connection that its owner closed.
var errClosed = errors.New("the connection is closed")

// Close ends the connection and everything that goes through it, except jobs.
func (c *Conn) Close() error {
	c.giveUp(errClosed)
	c.workers.Wait()
	if c.jump != nil {
		return c.jump.Close()
	}
	return nil
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Machine returns what the connection leads to.
func (c *Conn) Machine() Machine { return c.machine }

// failure says why something that goes through the connection failed with
// err: because of the connection, if that has ended.
func (c *Conn) failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return &LostError{Err: c.cause}
	}
	return err
}

// WaitOptions says how to wait for a machine.
type WaitOptions struct {
	// Every is the pause between two attempts. Zero means two seconds.
	Every time.Duration
	// AuthPatience is for how long a refused key is tried again: a new
	// machine may answer before its accounts are set up. Zero means not.
	AuthPatience time.Duration
	// Report, if set, is told of every failed attempt.
	Report func(attempt int, err error)
}

func (w WaitOptions) withDefaults() WaitOptions {
	if w.Every == 0 {
		w.Every = 2 * time.Second
	}
	return w
}

// WaitReachable connects to m, trying again until that works or ctx ends. The
// error then names the last cause. It does not try again when the host key
// has changed.
func WaitReachable(ctx context.Context, m Machine, o Options, w WaitOptions) (*Conn, error) {
	o = o.withDefaults()
	w = w.withDefaults()
	begin := time.Now()
	var firstRefused time.Time
	var last error
	for attempt := 1; ; attempt++ {
		c, err := dial(ctx, m, o)
		if err == nil {
			return c, nil
		}
		ended := over(ctx)
		if !ended || last == nil {
			last = err // what ctx's end did to this attempt explains nothing
		}
		if !ended {
			var unreachable *UnreachableError
			var auth *AuthError
			switch {
			case errors.As(err, &auth):
				if firstRefused.IsZero() {
					firstRefused = time.Now()
				}
				if time.Since(firstRefused) >= w.AuthPatience {
					return nil, wrap(m, err)
				}
			case !errors.As(err, &unreachable):
				return nil, wrap(m, err)
			default:
				firstRefused = time.Time{}
			}
			if w.Report != nil {
				w.Report(attempt, wrap(m, err))
			}
		}
		if !pause(ctx, w.Every) {
			return nil, wrap(m, &waitError{
				waited: time.Since(begin), attempts: attempt, last: last, cause: context.Cause(ctx),
			})
		}
	}
}

// over reports whether ctx has ended, or is just ending: a network operation
// with the same deadline may be the first to notice.
func over(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// pause waits, and reports whether ctx is still alive then.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
