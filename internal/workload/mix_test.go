package workload

import (
	"strings"
	"testing"
)

func TestParseMix(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Mix
	}{
		{"find=60,update=20,delete=10,insert=5,bulk_insert=5", DefaultMix()},
		{"bulk_insert=5,insert=5,delete=10,update=20,find=60,aggregate=0", DefaultMix()},
		{" find = 1 , aggregate=2", Mix{Find: 1, Aggregate: 2}},
		{"insert=10000", Mix{Insert: 10000}},
		{"find=007", Mix{Find: 7}},
	} {
		got, err := ParseMix(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("ParseMix(%q) = %v, %v; want %v", tc.text, got, err, tc.want)
		}
	}
}

func TestParseMixRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "not of the form kind=weight",
		"find":                "not of the form kind=weight",
		"find=1,":             "not of the form kind=weight",
		"find=60,find=40":     "find is given twice",
		"query=1":             `unknown kind "query"; the kinds are find, update`,
		"Find=1":              `unknown kind "Find"`,
		"find=-1":             `weight "-1" of find is not a whole number from 0 to 10000`,
		"find=+1":             `weight "+1"`,
		"find=1.5":            `weight "1.5"`,
		"find=60%":            `weight "60%"`,
		"find=":               `weight ""`,
		"find=10001":          `weight "10001"`,
		"find=99999999999999": "not a whole number",
		"find=0":              "all weights are 0",
		"find=9999,insert=2":  "the weights add up to 10001, more than 10000",
	} {
		if _, err := ParseMix(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMix(%q): error %v, want one with %q", text, err, want)
		}
	}
}

func TestMixString(t *testing.T) {
	if got, want := DefaultMix().String(), "find=60,update=20,delete=10,insert=5,bulk_insert=5"; got != want {
		t.Errorf("default mix is %q, want %q", got, want)
	}
	if got, want := (Mix{Aggregate: 3}).String(), "find=0,update=0,delete=0,insert=0,bulk_insert=0,aggregate=3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOpTypeString(t *testing.T) {
	var names []string
	for op := range OpType(NumOpTypes) {
		names = append(names, op.String())
	}
	if got, want := strings.Join(names, " "), "find updateOne updateMany deleteOne deleteMany insertOne insertMany aggregate"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := OpType(200).String(); got != "OpType(200)" {
		t.Errorf("got %q", got)
	}
}

func TestMixCounts(t *testing.T) {
	for _, tc := range []struct {
		mix  Mix
		want [NumOpTypes]int
	}{
		{DefaultMix(), [...]int{12, 2, 2, 1, 1, 1, 1, 0}},
		{Mix{Find: 50}, [...]int{1, 0, 0, 0, 0, 0, 0, 0}},
		{Mix{Update: 1}, [...]int{0, 1, 1, 0, 0, 0, 0, 0}},
		{Mix{Find: 2, Delete: 1}, [...]int{4, 0, 0, 1, 1, 0, 0, 0}},
		{Mix{Insert: 6, Aggregate: 9}, [...]int{0, 0, 0, 0, 0, 2, 0, 3}},
	} {
		if got := tc.mix.counts(); got != tc.want {
			t.Errorf("%s: counts %v, want %v", tc.mix, got, tc.want)
		}
	}
}

func FuzzParseMix(f *testing.F) {
	f.Add("find=60,update=20,delete=10,insert=5,bulk_insert=5")
	f.Add("find=1,aggregate=2")
	f.Add("find==1,,=")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMix(text)
		if err != nil {
			return
		}
		again, err := ParseMix(m.String())
		if err != nil || again != m {
			t.Errorf("%q reads as %v, whose text %q reads as %v, %v", text, m, m.String(), again, err)
		}
		s := DefaultSettings()
		s.Mix = m
		if _, err := New(s); err != nil {
			t.Errorf("%q is read, but refused by New: %v", text, err)
		}
	})
}
