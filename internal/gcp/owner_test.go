package gcp

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func ownedBy(owner, name string) Resource {
	r := Resource{Kind: kindMachine, Name: name}
	if owner != "" {
		r.Labels = map[string]string{labelOwner: owner}
	}
	return r
}

func TestOwner(t *testing.T) {
	for _, c := range []struct {
		given, before, user, want string
	}{
		{"", "", "Ann O'Neil", "ann-o-neil"},
		{"", "bob", "ann", "bob"}, // as before, whoever goes on with it
		{"Carl", "bob", "ann", "carl"},
		{"", "", "", ""},
	} {
		p := New(Options{Dir: t.TempDir(), Owner: c.given, User: c.user})
		if got := p.owner(&settings{Owner: c.before}); got != c.want {
			t.Errorf("%+v is of %q", c, got)
		}
	}
}

func TestForeignEnvironment(t *testing.T) {
	for _, existing := range [][]Resource{nil, {ownedBy("", "a")}, {ownedBy("ann", "a"), ownedBy("", "b")}} {
		if problem := foreign("x", "p", "ann", existing); problem != nil {
			t.Errorf("%+v: %v", existing, problem)
		}
	}
	problem := foreign("x", "p", "ann", []Resource{ownedBy("ann", "a"), ownedBy("carl", "b"), ownedBy("bob", "c"), ownedBy("bob", "d")})
	if problem == nil || problem.Summary != "the project p has an environment x of bob and carl" || !strings.Contains(problem.Fix, "Name yours with --env") || !strings.Contains(problem.Fix, "--owner bob") {
		t.Errorf("got %v", problem)
	}
	if foreign("x", "p", "", []Resource{ownedBy("bob", "c")}) == nil {
		t.Error("nobody may take bob's")
	}
}

func TestSplit(t *testing.T) {
	p := New(Options{Dir: t.TempDir(), User: "ann"})
	mine, others, unknown := ownedBy("ann", "a"), ownedBy("bob", "b"), ownedBy("", "network")
	for _, c := range []struct {
		all, ours, theirs []Resource
	}{
		{all: []Resource{mine, unknown}, ours: []Resource{mine, unknown}},
		{all: []Resource{unknown}, ours: []Resource{unknown}},
		{all: []Resource{mine, others, unknown}, ours: []Resource{mine}, theirs: []Resource{others, unknown}},
	} {
		ours, theirs, owners, err := p.Split(c.all)
		same := func(a, b Resource) bool { return a.Name == b.Name }
		if err != nil || !slices.EqualFunc(ours, c.ours, same) || !slices.EqualFunc(theirs, c.theirs, same) || (len(theirs) > 0) != slices.Equal(owners, []string{"bob"}) {
			t.Errorf("%v: ours %v, of %v %v (%v)", c.all, ours, owners, theirs, err)
		}
	}
}

// The time to live stays unless another is given.
func TestTimeToLive(t *testing.T) {
	for _, c := range []struct {
		given  time.Duration
		before string
		want   string
	}{
		{0, "", ""}, {8 * time.Hour, "", "8h"}, {0, "8h", "8h"}, {4 * time.Hour, "8h", "4h"}, {-1, "8h", ""},
	} {
		p := New(Options{Dir: t.TempDir(), TTL: c.given})
		if got := p.ttl(&settings{TTL: c.before}); got != c.want {
			t.Errorf("%v after %q is %q, want %q", c.given, c.before, got, c.want)
		}
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for ttl, refused := range map[time.Duration]bool{0: false, -1: false, 8 * time.Hour: true, 80 * time.Hour: false} {
		p, result := New(Options{Dir: t.TempDir(), TTL: ttl, Now: func() time.Time { return now }}), &Preflight{}
		p.checkTTL(&settings{Created: "20261127-120000", TTL: "1h"}, result)
		if (len(result.Problems) > 0) != refused {
			t.Errorf("%v after three days: %v", ttl, result.Problems)
		}
		p.checkTTL(&settings{}, &Preflight{}) // a new one has all its time
	}
}
