package workload

import "testing"

func BenchmarkDocument(b *testing.B) {
	w := newWorkload(b, nil)
	var buffer []byte
	var size int64
	var j int64
	for b.Loop() {
		buffer = w.AppendDocument(buffer[:0], j%w.settings.Size)
		size += int64(len(buffer))
		j++
	}
	b.ReportMetric(float64(size)/float64(j), "B/doc")
}

func BenchmarkCommand(b *testing.B) {
	g := newWorkload(b, nil).Generator(1, 0)
	var i int64
	for b.Loop() {
		g.Command(i)
		i++
	}
}

// BenchmarkCommandAlone makes commands far from each other.
func BenchmarkCommandAlone(b *testing.B) {
	g := newWorkload(b, nil).Generator(1, 0)
	var i int64
	for b.Loop() {
		g.Command(i)
		i += 1_000_003
	}
}

func BenchmarkCommandCanonicalChain(b *testing.B) {
	g, chain := newWorkload(b, nil).Generator(1, 0), NewChain()
	var canonical []byte
	var size int64
	var i int64
	for b.Loop() {
		canonical = g.Command(i).AppendCanonical(canonical[:0])
		chain.Add(canonical)
		size += int64(len(canonical))
		i++
	}
	b.ReportMetric(float64(size)/float64(i), "B/command")
}

func BenchmarkCanonicalFromWire(b *testing.B) {
	g := newWorkload(b, nil).Generator(1, 0)
	var i int64
	for b.Loop() {
		// As a server would see it, with the array in the body.
		if _, err := CanonicalFromWire(g.Command(i).AppendCanonical(nil), nil); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
