package stats

import (
	"errors"
	"math"
	"math/bits"
	"slices"
)

// Distribution is a sparse copy of an HDR histogram: the buckets that hold
// something, in ascending order. The zero value is empty and takes the
// geometry of the first histogram it is merged with.
type Distribution struct {
	geometry geometry
	index    []int32
	count    []int64
	total    int64
}

// geometry is what gives a bucket's index its range of values.
type geometry struct {
	unit int8 // a bucket of the linear part is 1<<unit wide
	half int8 // half a power of two is cut in 1<<half buckets
}

var errGeometry = errors.New("histograms of different range or precision cannot be merged")

// FromBuckets makes a distribution of the buckets of an HDR histogram that
// hold something: their places in its array of counters, ascending, and the
// counts, none of them 0. The histogram has the lowest value and the number
// of decimal digits given. The slices are kept.
func FromBuckets(lowest int64, digits int, index []int32, count []int64) *Distribution {
	// As the format defines it: 2·10^digits rounded up to a power of two is
	// the number of sub-buckets, the lower half of which is used only by
	// the first power of two.
	subBuckets := 2 * int64(math.Pow10(digits))
	d := &Distribution{
		geometry: geometry{
			unit: int8(bits.Len64(uint64(max(lowest, 1))) - 1),
			half: int8(bits.Len64(uint64(subBuckets-1)) - 1),
		},
		index: index,
		count: count,
	}
	for _, c := range count {
		d.total += c
	}
	return d
}

// bounds gives the lowest and highest value that falls into bucket i.
func (g geometry) bounds(i int32) (low, high int64) {
	power := max(i>>g.half-1, 0)
	sub := int64(i) - int64(power)<<g.half
	shift := uint(power) + uint(g.unit)
	low = sub << shift
	return low, low + 1<<shift - 1
}

// Count is the number of values.
func (d *Distribution) Count() int64 {
	if d == nil {
		return 0
	}
	return d.total
}

// Merge adds the values of other to d. It fails when the two were recorded
// with different range or precision.
func (d *Distribution) Merge(other *Distribution) error {
	if other.Count() == 0 {
		return nil
	}
	if d.total == 0 {
		d.geometry = other.geometry
		d.index = slices.Clone(other.index)
		d.count = slices.Clone(other.count)
		d.total = other.total
		return nil
	}
	if d.geometry != other.geometry {
		return errGeometry
	}
	index := make([]int32, 0, len(d.index)+len(other.index)/4)
	count := make([]int64, 0, cap(index))
	i, j := 0, 0
	for i < len(d.index) || j < len(other.index) {
		switch {
		case j == len(other.index) || i < len(d.index) && d.index[i] < other.index[j]:
			index, count = append(index, d.index[i]), append(count, d.count[i])
			i++
		case i == len(d.index) || other.index[j] < d.index[i]:
			index, count = append(index, other.index[j]), append(count, other.count[j])
			j++
		default:
			index, count = append(index, d.index[i]), append(count, d.count[i]+other.count[j])
			i++
			j++
		}
	}
	d.index, d.count = index, count
	d.total += other.total
	return nil
}

// mergeAll is the distribution of all parts together.
func mergeAll(parts []*Distribution) (*Distribution, error) {
	all := &Distribution{}
	last := int32(-1)
	for _, p := range parts {
		if p.Count() == 0 {
			continue
		}
		if all.total > 0 && p.geometry != all.geometry {
			return nil, errGeometry
		}
		all.geometry = p.geometry
		all.total += p.total
		last = max(last, p.index[len(p.index)-1])
	}
	dense := make([]int64, last+1)
	used := 0
	for _, p := range parts {
		if p.Count() == 0 {
			continue
		}
		for i, index := range p.index {
			if dense[index] == 0 {
				used++
			}
			dense[index] += p.count[i]
		}
	}
	all.index = make([]int32, 0, used)
	all.count = make([]int64, 0, used)
	for i, c := range dense {
		if c > 0 {
			all.index = append(all.index, int32(i))
			all.count = append(all.count, c)
		}
	}
	return all, nil
}

// Quantile is the smallest recorded value that at least the share q (0 to 1)
// of all values does not exceed, read as HDR histograms do: the highest value
// of its bucket, so at most the histogram's precision above the exact one.
// An empty distribution has quantile 0.
func (d *Distribution) Quantile(q float64) float64 {
	if d.Count() == 0 {
		return 0
	}
	rank := quantileRank(q, d.total)
	var seen int64
	for i, c := range d.count {
		if seen += c; seen >= rank {
			_, high := d.geometry.bounds(d.index[i])
			return float64(high)
		}
	}
	return 0 // not reached: the counts add up to total
}

// Mean is the mean of the buckets' middles, and 0 when empty.
func (d *Distribution) Mean() float64 {
	if d.Count() == 0 {
		return 0
	}
	var sum float64
	for i, c := range d.count {
		low, high := d.geometry.bounds(d.index[i])
		sum += float64(c) * (float64(low) + float64(high)) / 2
	}
	return sum / float64(d.total)
}

func quantileRank(q float64, total int64) int64 {
	// The small term keeps 0.95·20 = 19.000000000000004 at rank 19.
	return min(max(int64(math.Ceil(q*float64(total)-1e-9*float64(total)-1e-9)), 1), total)
}

// cumulative holds the distributions of several windows on one set of
// buckets, each summed from below, so that the quantile of any weighted
// mixture of them is a binary search.
type cumulative struct {
	windows   int
	low, high []float64 // [bucket]; high is where the next value begins
	sums      []int64   // [bucket*windows+window]
	totals    []int64   // [window]
}

func newCumulative(parts []*Distribution) (*cumulative, error) {
	all, err := mergeAll(parts)
	if err != nil {
		return nil, err
	}
	c := &cumulative{windows: len(parts), totals: make([]int64, len(parts))}
	for w, p := range parts {
		c.totals[w] = p.Count()
	}
	c.low = make([]float64, len(all.index))
	c.high = make([]float64, len(all.index))
	c.sums = make([]int64, len(all.index)*len(parts))
	next := make([]int, len(parts))
	seen := make([]int64, len(parts))
	for b, index := range all.index {
		low, high := all.geometry.bounds(index)
		c.low[b], c.high[b] = float64(low), float64(high)+1
		for w, p := range parts {
			if n := next[w]; p.Count() > 0 && n < len(p.index) && p.index[n] == index {
				seen[w] += p.count[n]
				next[w]++
			}
			c.sums[b*len(parts)+w] = seen[w]
		}
	}
	return c, nil
}

func (c *cumulative) at(bucket int, weights []int) (sum int64) {
	row := c.sums[bucket*c.windows : (bucket+1)*c.windows]
	for w, k := range weights {
		sum += int64(k) * row[w]
	}
	return sum
}

// quantile of the mixture in which window w counts weights[w] times. Inside
// a bucket it interpolates, so that resampling sees a smooth function and
// not the histogram's steps.
func (c *cumulative) quantile(q float64, weights []int) float64 {
	var total int64
	for w, k := range weights {
		total += int64(k) * c.totals[w]
	}
	if total == 0 {
		return 0
	}
	rank := quantileRank(q, total)
	lo, hi := 0, len(c.low)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if c.at(mid, weights) >= rank {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	var below int64
	if lo > 0 {
		below = c.at(lo-1, weights)
	}
	inside := c.at(lo, weights) - below
	share := (float64(rank-below) - 0.5) / float64(inside)
	return c.low[lo] + share*(c.high[lo]-c.low[lo])
}

// step is the relative standard deviation that rounding to the bucket of
// value brings: a uniform distribution over the bucket's width.
func (c *cumulative) step(value float64) float64 {
	b, _ := slices.BinarySearch(c.high, value)
	if b >= len(c.high) || value <= 0 {
		return 0
	}
	return (c.high[b] - c.low[b]) / value / math.Sqrt(12)
}
