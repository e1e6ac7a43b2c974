package workload

import (
	"math"
	"testing"
)

// The numbers are the ones that other implementations of SplitMix64 give:
// for seed 0 those of Java's and the xoshiro authors' reference code, for
// 1234567 those of Rosetta Code, "Pseudo-random numbers/Splitmix64".
func TestStreamVectors(t *testing.T) {
	for _, tc := range []struct {
		seed uint64
		want []uint64
	}{
		{0, []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec, 0x1b39896a51a8749b}},
		{1234567, []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}},
	} {
		s := stream(tc.seed)
		for i, want := range tc.want {
			if got := s.next(); got != want {
				t.Errorf("seed %d: number %d is %#x, want %#x", tc.seed, i, got, want)
			}
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[stream]string{}
	note := func(name string, s stream) {
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s are one stream", name, other)
		}
		seen[s] = name
	}
	note("base", newStream(1, domainSeeded, 1, 2, 3))
	note("other seed", newStream(2, domainSeeded, 1, 2, 3))
	note("other domain", newStream(1, domainInserted, 1, 2, 3))
	note("other first", newStream(1, domainSeeded, 2, 2, 3))
	note("other second", newStream(1, domainSeeded, 1, 1, 3))
	note("other third", newStream(1, domainSeeded, 1, 2, 4))
	note("exchanged", newStream(1, domainSeeded, 2, 1, 3))
}

func TestBelow(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 10, 62, 1000} {
		s := stream(42)
		counts := make([]int64, n)
		draws := 1000 * n
		for range draws {
			x := s.below(n)
			if x < 0 || x >= n {
				t.Fatalf("below(%d) is %d", n, x)
			}
			counts[x]++
		}
		checkUniform(t, "below", counts)
	}
	// Near the top of the range the rejection of Lemire's method matters:
	// without it, numbers would come in unequal frequencies.
	s := stream(7)
	var high int
	for range 3000 {
		if s.below(math.MaxInt64/3*2) >= math.MaxInt64/3 {
			high++
		}
	}
	if high < 1350 || high > 1650 {
		t.Errorf("%d of 3000 draws in the upper half", high)
	}
}

func TestPermutationIsBijective(t *testing.T) {
	for n := int64(1); n <= 300; n++ {
		p := newPermutation(n, stream(n))
		seen := make([]bool, n)
		for x := range n {
			y := p.at(x)
			if y < 0 || y >= n || seen[y] {
				t.Fatalf("n=%d: image of %d is %d: outside or twice", n, x, y)
			}
			seen[y] = true
		}
	}
	p := newPermutation(100_003, stream(1))
	seen := make([]bool, 100_003)
	var fixed int
	for x := range int64(100_003) {
		y := p.at(x)
		if seen[y] {
			t.Fatalf("%d twice", y)
		}
		seen[y] = true
		if x == y {
			fixed++
		}
	}
	if fixed > 10 { // one is expected of a random permutation
		t.Errorf("%d of 100,003 stay where they are", fixed)
	}
}

// invert is the inverse of p.at, for the tests.
func (p *permutation) invert(y int64) int64 {
	x := uint64(y)
	for {
		left, right := x>>p.half, x&p.mask
		for i := len(p.keys) - 1; i >= 0; i-- {
			left, right = right^mix64(left^p.keys[i])&p.mask, left
		}
		if x = left<<p.half | right; x < p.n {
			return int64(x)
		}
	}
}

func TestPermutationInverts(t *testing.T) {
	for _, n := range []int64{1, 2, 77, 1 << 20, 1 << 48, MaxSize} {
		p := newPermutation(n, stream(n))
		random := stream(5)
		for range 1000 {
			x := random.below(n)
			if back := p.invert(p.at(x)); back != x {
				t.Fatalf("n=%d: %d comes back as %d", n, x, back)
			}
		}
	}
}

// checkUniform fails if the counts are not what equal probabilities give:
// chi-square more than five standard deviations above its mean.
func checkUniform(t *testing.T, what string, counts []int64) {
	t.Helper()
	var sum int64
	for _, n := range counts {
		sum += n
	}
	freedom := float64(len(counts) - 1)
	want := float64(sum) / float64(len(counts))
	var chi2 float64
	for _, n := range counts {
		chi2 += (float64(n) - want) * (float64(n) - want) / want
	}
	if limit := freedom + 5*math.Sqrt(2*freedom) + 1e-9; chi2 > limit {
		t.Errorf("%s: chi-square %.1f over %d classes, more than %.1f", what, chi2, len(counts), limit)
	}
}
