package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// reading is a member's sample; values are CPU user and system µs, uptime
// and pid; the term is 3.
func reading(name, state string, user, system, uptime, pid float64) record.Sample {
	return record.Sample{Member: name, State: state, Values: map[string]float64{
		mongodb.CPUUser: user, mongodb.CPUSystem: system, mongodb.Uptime: uptime,
		mongodb.ProcessID: pid, mongodb.ElectionTerm: 3,
	}}
}

func before() []record.Sample {
	return []record.Sample{
		reading("m0", "PRIMARY", 1000, 100, 50, 7),
		reading("m1", "SECONDARY", 2000, 200, 50, 8),
		reading("m2", "SECONDARY", 3000, 300, 50, 9),
		{Member: "m3", State: "ARBITER"},
	}
}

func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]record.Sample)
		want   []string
	}{
		"nothing happened": {func([]record.Sample) {}, nil},
		"new process":      {func(s []record.Sample) { s[1].Values[mongodb.ProcessID] = 80 }, []string{"member m1 restarted"}},
		"same process id, younger": {func(s []record.Sample) { s[1].Values[mongodb.Uptime] = 2 },
			[]string{"member m1 restarted"}},
		"election": {func(s []record.Sample) {
			for _, m := range s[:3] {
				m.Values[mongodb.ElectionTerm] = 4
			}
			s[0].State, s[1].State = "SECONDARY", "PRIMARY"
		}, []string{
			"an election happened: term 3 became 4",
			"member m0 was PRIMARY and became SECONDARY", "member m1 was SECONDARY and became PRIMARY",
		}},
		"new term, same primary": {func(s []record.Sample) { s[0].Values[mongodb.ElectionTerm] = 5 },
			[]string{"an election happened: term 3 became 5"}},
		"unreachable": {func(s []record.Sample) { s[2] = record.Sample{Member: "m2", Error: "refused"} },
			[]string{"member m2 did not answer: refused"}},
		"arbiter gone": {func(s []record.Sample) { s[3] = record.Sample{Member: "m3", Error: "refused"} },
			[]string{"member m3 did not answer: refused"}},
		"recovering": {func(s []record.Sample) { s[2].State = "RECOVERING" },
			[]string{"member m2 was SECONDARY and became RECOVERING"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(before())
			after := before()
			c.change(after)
			w.see(after)
			w.see(after) // a reason counts once
			if diff := cmp.Diff(c.want, w.reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReady(t *testing.T) {
	samples := before()
	if err := newWatch(samples).ready(); err != nil {
		t.Errorf("all answer: %v", err)
	}
	samples[1] = record.Sample{Member: "m1", Error: "refused"}
	if err := newWatch(samples).ready(); err == nil || !strings.Contains(err.Error(), "m1") {
		t.Errorf("m1 does not answer: %v", err)
	}
}

func TestCPUPerCommand(t *testing.T) {
	after := func() []record.Sample {
		return []record.Sample{
			reading("m0", "PRIMARY", 1000+5000, 100+1000, 60, 7),
			reading("m1", "SECONDARY", 2000+2000, 200+400, 60, 8),
			reading("m2", "SECONDARY", 3000+1000, 300+600, 60, 9),
			{Member: "m3", State: "ARBITER"},
		}
	}
	within := cmpopts.EquateApprox(1e-9, 0)
	w := newWatch(before())
	w.last = after()
	if diff := cmp.Diff(&record.CPUPerCommand{Primary: 60, Secondary: 40}, w.cpuPerCommand(100), within); diff != "" {
		t.Errorf("CPU per command (-want +got):\n%s", diff)
	}
	// With a warm-up, commands and CPU count from its end.
	w.base, w.before = before(), 20
	w.base[0].Values[mongodb.CPUUser] = 3000
	if diff := cmp.Diff(&record.CPUPerCommand{Primary: 50, Secondary: 50}, w.cpuPerCommand(100), within); diff != "" {
		t.Errorf("CPU per command after a warm-up (-want +got):\n%s", diff)
	}
	if got := w.cpuPerCommand(20); got != nil {
		t.Errorf("without a command: %+v", got)
	}
	delete(w.last[2].Values, mongodb.CPUSystem)
	if got := w.cpuPerCommand(100); got != nil {
		t.Errorf("with a member that does not tell: %+v", got)
	}
	if got := newWatch(before()).cpuPerCommand(100); got != nil {
		t.Errorf("without a last reading: %+v", got)
	}
}

func TestMemberURI(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://a:1,b:2/":                                     "mongodb://b:2/",
		"mongodb://a:1,b:2/?replicaSet=rs":                       "mongodb://b:2/",
		"mongodb://a:1/?replicaSet=rs&tls=true&authSource=x&w=1": "mongodb://b:2/?tls=true&authSource=x",
		"mongodb://a:1/?tlsCAFile=/x&readPreference=secondary":   "mongodb://b:2/?tlsCAFile=/x",
	} {
		if got := memberURI(uri, "b:2"); got != want {
			t.Errorf("memberURI(%s) = %s, want %s", uri, got, want)
		}
	}
}

func TestSettingsWeights(t *testing.T) {
	o := options(t, nil)
	w, err := newWorkload(o.Settings, 1000)
	if err != nil {
		t.Fatal(err)
	}
	weights := w.Settings().Mix.Weights()
	if weights["find"] != 60 || weights["update"] != 40 || len(weights) != 6 {
		t.Errorf("weights = %v", weights)
	}
	o.Settings.Mix = weights
	again, err := newWorkload(o.Settings, 1000)
	if err != nil || again.Settings() != w.Settings() {
		t.Errorf("settings changed on the way: %+v, %v", again.Settings(), err)
	}
}
