package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// member is a direct connection to a member of a target.
type member struct {
	Member
	client *mongodb.Client
}

type members []member

// connectMembers prepares direct connections. Arbiters hold no users, so
// they are asked without credentials.
func connectMembers(ctx context.Context, t Target, appName string) (members, error) {
	var list members
	for _, m := range t.Members {
		options := mongodb.Options{URI: memberURI(t.URI, m.Address), AppName: appName, Direct: true, MaxPoolSize: 2}
		if !m.Arbiter {
			options.Username, options.Password = t.Username, t.Password
		}
		client, err := mongodb.Connect(ctx, options)
		if err != nil {
			list.close(ctx)
			return nil, fmt.Errorf("member %s: %w", m.Name, err)
		}
		list = append(list, member{m, client})
	}
	return list, nil
}

// memberURI is the connection string of one member, with the options of the
// target's that are about the connection and not about the topology.
func memberURI(uri, address string) string {
	out := "mongodb://" + address + "/"
	_, query, _ := strings.Cut(uri, "?")
	separator := "?"
	for option := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(option, "=")
		switch strings.ToLower(name) {
		case "", "replicaset", "directconnection", "loadbalanced", "readpreference", "readpreferencetags",
			"maxstalenessseconds", "w", "wtimeoutms", "journal", "maxpoolsize", "minpoolsize":
			continue
		}
		out += separator + option
		separator = "&"
	}
	return out
}

func (list members) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, m := range list {
		_ = m.client.Close(ctx) // nothing depends on a good end
	}
}

func (list members) names() mongodb.Names {
	names := mongodb.Names{}
	for _, m := range list {
		names[m.Address] = m.Name
	}
	return names
}

// definitions asks the members how they define what they hold; those that say
// the same share an entry. Like plans these are context, not a measurement:
// what cannot be asked becomes a warning.
func (list members) definitions(ctx context.Context, collections []workload.Collection) (out []record.Definitions, warnings []string) {
	ctx, cancel := context.WithTimeout(ctx, definitionsTimeout)
	defer cancel()
	databases := map[string]bool{}
	for _, c := range collections {
		databases[c.Database] = true
	}
	for _, m := range list {
		if m.Arbiter {
			continue
		}
		facts, missing := map[string]string{}, false
		for database := range databases {
			found, err := m.client.Definitions(ctx, database)
			if err != nil {
				warnings, missing = append(warnings, fmt.Sprintf("member %s does not tell how it defines collections and indexes: %v", m.Name, err)), true
			}
			maps.Copy(facts, found)
		}
		if missing {
			continue
		}
		i := slices.IndexFunc(out, func(d record.Definitions) bool { return maps.Equal(d.Facts, facts) })
		if i < 0 {
			i, out = len(out), append(out, record.Definitions{Facts: facts})
		}
		out[i].Members = append(out[i].Members, m.Name)
	}
	return out, warnings
}

// sampler reads all members of a target.
type sampler struct {
	members members
	sink    interface{ Sample(record.Sample) error }
	now     func() time.Time
}

// take reads all members at once and writes down what they say; a member
// that does not answer is written down as such. When ctx ends meanwhile,
// nothing is written and the error is ctx's.
func (s *sampler) take(ctx context.Context, phase string) ([]record.Sample, error) {
	samples := make([]record.Sample, len(s.members))
	var group errgroup.Group
	for i, m := range s.members {
		group.Go(func() error {
			samples[i] = m.sample(ctx)
			samples[i].At, samples[i].Phase, samples[i].Member = s.now(), phase, m.Name
			return nil
		})
	}
	_ = group.Wait() // the readings carry their errors
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, sample := range samples {
		if err := s.sink.Sample(sample); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func (m *member) sample(ctx context.Context) record.Sample {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	if m.Arbiter { // it answers nothing else without a user
		hello, err := m.client.Hello(ctx)
		if err != nil {
			return record.Sample{Error: err.Error()}
		}
		return record.Sample{State: hello.State()}
	}
	sample, err := m.client.Sample(ctx)
	if err != nil {
		return record.Sample{Error: err.Error()}
	}
	return record.Sample{State: sample.State, Values: sample.Values}
}

// during takes samples while the load runs.
type during struct {
	measured chan int64 // commands so far, when the warm-up was seen to be over
	once     sync.Once
	done     chan error
	cancel   context.CancelFunc
}

// start takes a sample after first and then one at every interval, and hands
// them to w. With a warm-up, one more is taken when that is over: CPU times
// count from there.
func (s *sampler) start(ctx context.Context, w *watch, every, first time.Duration) *during {
	d := &during{measured: make(chan int64, 1), done: make(chan error, 1)}
	ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		for {
			commands, base := int64(0), false
			select {
			case <-ctx.Done():
				d.done <- nil
				return
			case commands = <-d.measured:
				base = true
			case <-timer.C:
				timer.Reset(every)
			}
			samples, err := s.take(ctx, "during")
			if ctx.Err() != nil {
				d.done <- nil // what it cut off is no finding
				return
			}
			if err != nil {
				d.done <- err
				return
			}
			w.see(samples)
			if base {
				w.base, w.before = samples, commands
			}
		}
	}()
	return d
}

// warmedUp is told how many commands had been sent when the warm-up was seen
// to be over. Only the first call counts.
func (d *during) warmedUp(commands int64) {
	d.once.Do(func() { d.measured <- commands })
}

// stop ends sampling and returns what went wrong with writing.
func (d *during) stop() error {
	d.cancel()
	return <-d.done
}

// watch compares the readings of a cell with those before it. It is used by
// one goroutine at a time.
type watch struct {
	first   []record.Sample // before the load
	base    []record.Sample // where CPU times are taken from
	before  int64           // commands that were sent before base
	last    []record.Sample
	reasons []string
}

func newWatch(before []record.Sample) *watch { return &watch{first: before, base: before} }

// ready refuses to begin while a member does not answer.
func (w *watch) ready() error {
	var errs []error
	for _, s := range w.first {
		if s.Error != "" {
			errs = append(errs, fmt.Errorf("member %s does not answer: %s", s.Member, s.Error))
		}
	}
	return errors.Join(errs...)
}

// see notes what makes the cell worthless: a member that does not answer,
// that restarted or changed its state, an election.
func (w *watch) see(now []record.Sample) {
	for i, s := range now {
		was := w.first[i]
		if s.Error != "" {
			w.invalid("member %s did not answer: %s", s.Member, s.Error)
			continue
		}
		if changed(was, s, mongodb.ProcessID) || s.Values[mongodb.Uptime] < was.Values[mongodb.Uptime] {
			w.invalid("member %s restarted", s.Member)
		}
		if changed(was, s, mongodb.ElectionTerm) {
			w.invalid("an election happened: term %.0f became %.0f", was.Values[mongodb.ElectionTerm], s.Values[mongodb.ElectionTerm])
		}
		if s.State != was.State {
			w.invalid("member %s was %s and became %s", s.Member, was.State, s.State)
		}
	}
}

func (w *watch) invalid(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	if !slices.Contains(w.reasons, reason) {
		w.reasons = append(w.reasons, reason)
	}
}

// changed reports whether both samples have the value and differ in it.
func changed(a, b record.Sample, name string) bool {
	before, had := a.Values[name]
	after, has := b.Values[name]
	return had && has && before != after
}

// cpuPerCommand is the members' CPU time, user and system, per successful
// command. It is nil when a member did not tell, and when there was no
// command.
func (w *watch) cpuPerCommand(commands int64) *record.CPUPerCommand {
	commands -= w.before
	if commands <= 0 || len(w.last) != len(w.base) {
		return nil
	}
	var out record.CPUPerCommand
	for i, after := range w.last {
		if after.State == "ARBITER" {
			continue
		}
		var us float64
		for _, name := range []string{mongodb.CPUUser, mongodb.CPUSystem} {
			from, had := w.base[i].Values[name]
			to, has := after.Values[name]
			if !had || !has || to < from {
				return nil
			}
			us += to - from
		}
		switch after.State {
		case "SECONDARY":
			out.Secondary += us / float64(commands)
		case "PRIMARY", "STANDALONE":
			out.Primary += us / float64(commands)
		}
	}
	return &out
}
