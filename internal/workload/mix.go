package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxWeight bounds a weight and the sum of the weights of a mix, because a
// generator holds a block of at most twice that many commands.
const maxWeight = 10_000

// String is the operation type as records, reports and flags spell it.
func (t OpType) String() string {
	switch t {
	case Find:
		return "find"
	case UpdateOne:
		return "updateOne"
	case UpdateMany:
		return "updateMany"
	case DeleteOne:
		return "deleteOne"
	case DeleteMany:
		return "deleteMany"
	case InsertOne:
		return "insertOne"
	case InsertMany:
		return "insertMany"
	case Aggregate:
		return "aggregate"
	}
	return "OpType(" + strconv.Itoa(int(t)) + ")"
}

// DefaultMix is 60 % finds, 20 % updates, 10 % deletes, 5 % inserts and 5 %
// bulk inserts.
func DefaultMix() Mix {
	return Mix{Find: 60, Update: 20, Delete: 10, Insert: 5, BulkInsert: 5}
}

// kind is one weight of a mix with its name.
type kind struct {
	name   string
	weight *int
}

// kinds are all of them, in the order String writes them.
func (m *Mix) kinds() []kind {
	return []kind{
		{"find", &m.Find},
		{"update", &m.Update},
		{"delete", &m.Delete},
		{"insert", &m.Insert},
		{"bulk_insert", &m.BulkInsert},
		{"aggregate", &m.Aggregate},
	}
}

// weight is the weight of that name, nil if there is none.
func (m *Mix) weight(name string) *int {
	for _, kind := range m.kinds() {
		if kind.name == name {
			return kind.weight
		}
	}
	return nil
}

// Weights are the weights by the names of their kinds.
func (m Mix) Weights() map[string]int {
	weights := map[string]int{}
	for _, kind := range m.kinds() {
		weights[kind.name] = *kind.weight
	}
	return weights
}

// MixOf is the mix whose Weights these are; a kind that is missing weighs
// nothing.
func MixOf(weights map[string]int) (Mix, error) {
	var m Mix
	for name, n := range weights {
		weight := m.weight(name)
		if weight == nil {
			return Mix{}, fmt.Errorf("mix: unknown kind of command %q", name)
		}
		*weight = n
	}
	return m, nil
}

// ParseMix reads a mix such as "find=60,update=20,delete=10,insert=5,
// bulk_insert=5". Kinds are find, update, delete, insert, bulk_insert and
// aggregate, each at most once and in any order; one that is missing weighs
// nothing. Weights are whole numbers from 0, their sum is 1 to 10,000; they
// need not add up to 100. Spaces around names and weights are ignored.
func ParseMix(text string) (Mix, error) {
	var m Mix
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found {
			return Mix{}, fmt.Errorf("mix %q: %q is not of the form kind=weight", text, strings.TrimSpace(part))
		}
		weight := m.weight(name)
		if weight == nil {
			return Mix{}, fmt.Errorf("mix %q: unknown kind %q; the kinds are find, update, delete, insert, bulk_insert and aggregate", text, name)
		}
		if seen[name] {
			return Mix{}, fmt.Errorf("mix %q: %s is given twice", text, name)
		}
		seen[name] = true
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n > maxWeight {
			return Mix{}, fmt.Errorf("mix %q: weight %q of %s is not a whole number from 0 to %d", text, value, name, maxWeight)
		}
		*weight = int(n)
	}
	if err := m.validate(); err != nil {
		return Mix{}, fmt.Errorf("mix %q: %w", text, err)
	}
	return m, nil
}

func (m Mix) validate() error {
	sum := 0
	for _, kind := range m.kinds() {
		if *kind.weight < 0 || *kind.weight > maxWeight {
			return fmt.Errorf("weight %d of %s is outside 0 to %d", *kind.weight, kind.name, maxWeight)
		}
		sum += *kind.weight
	}
	if sum == 0 {
		return errors.New("all weights are 0")
	}
	if sum > maxWeight {
		return fmt.Errorf("the weights add up to %d, more than %d", sum, maxWeight)
	}
	return nil
}

// String is the mix in the form that ParseMix reads; aggregate is left out
// when it weighs nothing.
func (m Mix) String() string {
	var text []byte
	for _, kind := range m.kinds() {
		if kind.name == "aggregate" && *kind.weight == 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, ',')
		}
		text = append(text, kind.name...)
		text = append(text, '=')
		text = strconv.AppendInt(text, int64(*kind.weight), 10)
	}
	return string(text)
}

// counts says how often each operation type occurs in the smallest run of
// commands that has the mix's proportions exactly.
func (m Mix) counts() [NumOpTypes]int {
	// Doubled, so that halves of Update and Delete are whole numbers.
	counts := [NumOpTypes]int{
		Find:       2 * m.Find,
		UpdateOne:  m.Update,
		UpdateMany: m.Update,
		DeleteOne:  m.Delete,
		DeleteMany: m.Delete,
		InsertOne:  2 * m.Insert,
		InsertMany: 2 * m.BulkInsert,
		Aggregate:  2 * m.Aggregate,
	}
	divisor := 0
	for _, n := range counts {
		for n != 0 { // greatest common divisor, Euclid
			divisor, n = n, divisor%n
		}
	}
	for i := range counts {
		counts[i] /= divisor
	}
	return counts
}
