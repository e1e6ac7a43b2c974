package cli

import (
	"testing"
	"time"
)

func TestWarmup(t *testing.T) {
	for text, want := range map[string]warmup{
		"2m": {time: 2 * time.Minute}, "50000": {commands: 50000}, "0": {}, "0s": {},
	} {
		var got warmup
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "-5", "-2m", "1.5", "99999999999999999999"} {
		kept := warmup{commands: 7}
		if err := kept.Set(text); err == nil || kept.commands != 7 {
			t.Errorf("%q was taken: %+v", text, kept)
		}
	}
}
