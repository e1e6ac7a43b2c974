package workload

import "math/bits"

// golden is 2^64 divided by the golden ratio, rounded to an odd number: the
// increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// mix64 is the output function of SplitMix64, a bijection of 64-bit numbers.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// stream is a sequence of random numbers: SplitMix64 (Steele, Lea, Flood:
// Fast splittable pseudorandom number generators, OOPSLA 2014). Number n of
// a stream is mix64(key + (n+1)*golden), a function of key and counter.
type stream uint64

// domain keeps streams for different purposes apart.
type domain uint64

const (
	domainFlightID   domain = iota + 1 // flight_id of a number
	domainFlight                       // what a number determines
	domainSeeded                       // the rest of a seeded document
	domainInserted                     // the rest of an inserted document
	domainShareOrder                   // order in which a share is deleted and inserted
	domainBlock                        // order of the commands in a block
	domainCommand                      // keys and values of a command
)

// newStream is the stream of a purpose and up to three coordinates.
func newStream(seed uint64, d domain, a, b, c int64) stream {
	h := mix64(seed + uint64(d)*golden)
	h = mix64(h ^ uint64(a) + golden)
	h = mix64(h ^ uint64(b) + golden)
	return stream(mix64(h ^ uint64(c) + golden))
}

func (s *stream) next() uint64 {
	*s += golden
	return mix64(uint64(*s))
}

// below is a number in [0, n), every one equally likely (Lemire: Fast random
// integer generation in an interval, ACM TOMACS 29, 2019). n is positive.
func (s *stream) below(n int64) int64 {
	bound := uint64(n)
	high, low := bits.Mul64(s.next(), bound)
	if low < bound {
		for threshold := -bound % bound; low < threshold; {
			high, low = bits.Mul64(s.next(), bound)
		}
	}
	return int64(high)
}

// permutation is a keyed bijection of [0, n): a four-round Feistel network
// on the smallest even number of bits that holds n, applied again while the
// result is not below n (cycle walking; Black, Rogaway: Ciphers with
// arbitrary finite domains, CT-RSA 2002).
type permutation struct {
	n    uint64
	half uint // bits in half a block
	mask uint64
	keys [4]uint64
}

func newPermutation(n int64, keys stream) permutation {
	p := permutation{n: uint64(n)}
	p.half = max(1, uint(bits.Len64(p.n-1)+1)/2)
	p.mask = 1<<p.half - 1
	for i := range p.keys {
		p.keys[i] = keys.next()
	}
	return p
}

// at is the image of x, which is in [0, n).
func (p *permutation) at(x int64) int64 {
	y := uint64(x)
	for {
		left, right := y>>p.half, y&p.mask
		for _, key := range p.keys {
			left, right = right, left^mix64(right^key)&p.mask
		}
		if y = left<<p.half | right; y < p.n {
			return int64(y)
		}
	}
}
