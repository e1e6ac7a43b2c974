package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// pollEvery is the pause between two looks at a condition that is waited for.
const pollEvery = 50 * time.Millisecond

// attemptTimeout bounds one look, so that a member that does not answer
// shows up as the last cause instead of hiding behind a long selection.
const attemptTimeout = 2 * time.Second

// OpTime is a position in the oplog; terms order before timestamps.
type OpTime struct {
	TS   bson.Timestamp `bson:"ts"`
	Term int64          `bson:"t"`
}

// Before reports whether t is an earlier position than u.
func (t OpTime) Before(u OpTime) bool {
	return cmp.Or(cmp.Compare(t.Term, u.Term), cmp.Compare(t.TS.T, u.TS.T), cmp.Compare(t.TS.I, u.TS.I)) < 0
}

// ReplicaSetStatus is a replica set as one of its members sees it.
type ReplicaSetStatus struct {
	Term    int64          `bson:"term"`
	Members []MemberStatus `bson:"members"`
}

// MemberStatus is one member of it.
type MemberStatus struct {
	Name          string    `bson:"name"` // host:port
	StateName     string    `bson:"stateStr"`
	Health        float64   `bson:"health"` // 1: answers, 0: does not
	Self          bool      `bson:"self"`
	OpTime        OpTime    `bson:"optime"`
	OpTimeDate    time.Time `bson:"optimeDate"`
	LastHeartbeat string    `bson:"lastHeartbeatMessage"`
}

// Primary returns the member that is primary, if any.
func (s ReplicaSetStatus) Primary() (MemberStatus, bool) {
	for _, m := range s.Members {
		if m.StateName == "PRIMARY" && m.Health == 1 {
			return m, true
		}
	}
	return MemberStatus{}, false
}

// ReplicaSetStatus asks a member for its view.
func (c *Client) ReplicaSetStatus(ctx context.Context) (ReplicaSetStatus, error) {
	return c.replicaSetStatus(ctx, readpref.Nearest())
}

func (c *Client) replicaSetStatus(ctx context.Context, where *readpref.ReadPref) (ReplicaSetStatus, error) {
	var status ReplicaSetStatus
	err := c.runOn(ctx, where, "admin", bson.D{{Key: "replSetGetStatus", Value: 1}}, &status)
	return status, err
}

// Names map a member's host:port to the name that messages show beside it.
type Names map[string]string

func (n Names) label(host string) string {
	if name := n[host]; name != "" {
		return "member " + name + " " + host
	}
	return "member " + host
}

// WaitPrimary waits until a primary accepts writes. It is bounded by ctx
// only; its error shows the last cause as well.
func (c *Client) WaitPrimary(ctx context.Context, names Names) error {
	return c.wait(ctx, "a primary", func(ctx context.Context) error {
		status, err := c.ReplicaSetStatus(ctx)
		switch {
		case hasCode(err, codeNotYetInitialized):
			return errors.New("the replica set is not initiated")
		case err != nil:
			return err
		}
		if _, ok := status.Primary(); !ok {
			return cmp.Or(unfinished(status, names), errors.New("no member is primary"))
		}
		var hello Hello
		if err := c.runOn(ctx, readpref.PrimaryPreferred(), "admin", bson.D{{Key: "hello", Value: 1}}, &hello); err != nil {
			return err
		}
		// Through a direct connection any member will do that knows one.
		if !hello.IsWritablePrimary && hello.Primary == "" {
			return errors.New("the primary does not accept writes yet")
		}
		return nil
	})
}

// WaitHealthy waits until the set has one primary and every other member is
// SECONDARY or ARBITER. It is bounded by ctx only; its error shows the last
// cause as well.
func (c *Client) WaitHealthy(ctx context.Context, names Names) error {
	return c.wait(ctx, "healthy members", func(ctx context.Context) error {
		status, err := c.ReplicaSetStatus(ctx)
		if hasCode(err, codeNotYetInitialized) {
			return errors.New("the replica set is not initiated")
		}
		if err != nil {
			return err
		}
		if err := unfinished(status, names); err != nil {
			return err
		}
		if _, ok := status.Primary(); !ok {
			return errors.New("no member is primary")
		}
		return nil
	})
}

// Settled reports whether a member in this state has become what it is to be:
// PRIMARY, SECONDARY or ARBITER.
func Settled(state string) bool {
	return state == "PRIMARY" || state == "SECONDARY" || state == "ARBITER"
}

// unfinished names the first member that does not answer or is not settled.
func unfinished(status ReplicaSetStatus, names Names) error {
	if err := silent(status, names); err != nil {
		return err
	}
	for _, m := range status.Members {
		if !Settled(m.StateName) {
			return fmt.Errorf("%s is in state %s", names.label(m.Name), m.StateName)
		}
	}
	return nil
}

// silent names the first member that the others hear nothing from.
func silent(status ReplicaSetStatus, names Names) error {
	for _, m := range status.Members {
		if m.Health != 1 {
			return fmt.Errorf("%s does not answer: %s", names.label(m.Name), cmp.Or(m.LastHeartbeat, m.StateName))
		}
	}
	return nil
}

// ErrSilent means that a deployment has had no primary, or a member that
// does not answer, for longer than one would wait.
var ErrSilent = errors.New("the deployment has not been whole")

// WaitCaughtUp waits until every secondary has applied what the primary had
// applied when it was first asked. A standalone has nobody to wait for. How
// long it may take is bounded by ctx; how long it may be hopeless, because
// there is no primary or a member does not answer, by patience: then the
// error is ErrSilent. Errors show the last cause as well.
func (c *Client) WaitCaughtUp(ctx context.Context, patience time.Duration, names Names) error {
	var (
		goal  *OpTime
		since time.Time // when it began to be hopeless
	)
	return c.wait(ctx, "secondaries to catch up", func(ctx context.Context) error {
		status, err := c.replicaSetStatus(ctx, readpref.PrimaryPreferred())
		if hasCode(err, codeNoReplicationEnabled) {
			return nil
		}
		primary, ok := status.Primary()
		if err == nil && !ok {
			err = errors.New("no member is primary")
		}
		if err == nil {
			err = silent(status, names)
		}
		switch {
		case err == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			return err
		case time.Since(since) > patience:
			return fmt.Errorf("%w for %s: %w", ErrSilent, patience, err)
		default:
			return err
		}
		if goal == nil {
			goal = &primary.OpTime
		}
		for _, m := range status.Members {
			switch {
			case m.StateName == "ARBITER" || m.StateName == "PRIMARY":
			case m.StateName != "SECONDARY":
				return fmt.Errorf("%s is in state %s", names.label(m.Name), m.StateName)
			case m.OpTime.Before(*goal):
				return fmt.Errorf("%s is %v behind the primary", names.label(m.Name),
					primary.OpTimeDate.Sub(m.OpTimeDate).Round(time.Millisecond))
			}
		}
		return nil
	})
}

// wait looks until look is content or ctx ends.
func (c *Client) wait(ctx context.Context, what string, look func(context.Context) error) error {
	var cause error
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := look(attempt)
		cancel()
		switch {
		case err == nil:
			return nil
		case IsUnauthorized(err), errors.Is(err, ErrSilent):
			return fmt.Errorf("wait for %s of %s: %w", what, c.subject, err) // will not get better
		case ctx.Err() == nil || cause == nil:
			cause = err // an attempt cut short by ctx itself says nothing new
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for %s of %s: %w; last cause: %w", what, c.subject, ctx.Err(), cause)
		case <-timer.C:
		}
	}
}
