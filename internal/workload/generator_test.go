package workload

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// keys returns the values of a command's $in list or of its one key.
func keys(t testing.TB, c *Command) []bson.RawValue {
	t.Helper()
	filter := c.Filter
	if c.Type == Aggregate {
		filter = c.Pipeline.Lookup("0", "$match").Document()
	}
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 {
		t.Fatalf("filter %v: %v", filter, err)
	}
	value := elements[0].Value()
	if value.Type != bson.TypeEmbeddedDocument {
		return []bson.RawValue{value}
	}
	values, err := value.Document().Lookup("$in").Array().Values()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// numberOf is the document number of a flight_id.
func (w *Workload) numberOf(flightID int64) int64 { return w.flightIDs.invert(flightID - 1) }

func TestRandomAccess(t *testing.T) {
	w := newWorkload(t, func(s *Settings) { s.Size = 5000; s.Workers = 4; s.Mix.Aggregate = 5 })
	const n = 3000
	type place struct {
		iteration, worker int
		i                 int64
	}
	sequential := map[place][]byte{}
	var places []place
	for iteration := 1; iteration <= 2; iteration++ {
		for worker := range 4 {
			g := w.Generator(iteration, worker)
			for i := range int64(n) {
				p := place{iteration, worker, i}
				sequential[p] = g.Command(i).AppendCanonical(nil)
				places = append(places, p)
			}
		}
	}
	// Every command alone, from a generator that has made nothing else.
	for i := 0; i < len(places); i += 37 {
		p := places[i]
		if got := w.Generator(p.iteration, p.worker).Command(p.i).AppendCanonical(nil); !bytes.Equal(got, sequential[p]) {
			t.Fatalf("%+v alone differs from %+v in sequence", p, p)
		}
	}
	// All in shuffled order, on several goroutines and processors.
	random := stream(99)
	for i := len(places) - 1; i > 0; i-- {
		k := random.below(int64(i + 1))
		places[i], places[k] = places[k], places[i]
	}
	for _, processors := range []int{1, 8} {
		before := runtime.GOMAXPROCS(processors)
		var group sync.WaitGroup
		for part := range slices.Chunk(places, len(places)/8+1) {
			group.Go(func() {
				generators := map[[2]int]*Generator{}
				for _, p := range part {
					g := generators[[2]int{p.iteration, p.worker}]
					if g == nil {
						g = w.Generator(p.iteration, p.worker)
						generators[[2]int{p.iteration, p.worker}] = g
					}
					if got := g.Command(p.i).AppendCanonical(nil); !bytes.Equal(got, sequential[p]) {
						t.Errorf("%+v out of order differs from %+v in sequence", p, p)
						return
					}
				}
			})
		}
		group.Wait()
		runtime.GOMAXPROCS(before)
	}
	// Far away, where nobody goes in sequence.
	far := w.Generator(1, 2).Command(9_876_543_210)
	if again := w.Generator(1, 2).Command(9_876_543_210); !bytes.Equal(far.AppendCanonical(nil), again.AppendCanonical(nil)) {
		t.Error("command 9,876,543,210 is not always the same")
	}
}

func TestCommandsDependOnTheirCoordinates(t *testing.T) {
	find := func(w *Workload, iteration, worker int, i int64) string {
		g := w.Generator(iteration, worker)
		for ; ; i++ {
			if c := g.Command(i); c.Type == Find {
				return string(c.AppendCanonical(nil))
			}
		}
	}
	base := newWorkload(t, nil)
	seed := newWorkload(t, func(s *Settings) { s.Seed++ })
	seen := map[string]string{}
	for name, text := range map[string]string{
		"base":            find(base, 1, 1, 0),
		"other seed":      find(seed, 1, 1, 0),
		"other iteration": find(base, 2, 1, 0),
		"other worker":    find(base, 1, 2, 0),
		"other command":   find(base, 1, 1, 100),
	} {
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s are the same command", name, other)
		}
		seen[text] = name
	}
	if bytes.Equal(base.AppendDocument(nil, 1), seed.AppendDocument(nil, 1)) {
		t.Error("document 1 is the same for two seeds")
	}
}

func TestMixIsExact(t *testing.T) {
	for _, tc := range []struct {
		mix  string
		want [NumOpTypes]int // in a block
	}{
		{"find=60,update=20,delete=10,insert=5,bulk_insert=5", [...]int{60, 10, 10, 5, 5, 5, 5, 0}},
		{"find=1", [...]int{100, 0, 0, 0, 0, 0, 0, 0}},
		{"find=1,update=1,aggregate=1", [...]int{34, 17, 17, 0, 0, 0, 0, 34}},
		{"find=33,delete=67", [...]int{66, 0, 0, 67, 67, 0, 0, 0}},
		{"find=9999,aggregate=1", [...]int{9999, 0, 0, 0, 0, 0, 0, 1}},
		{"find=9999,update=1", [...]int{19998, 1, 1, 0, 0, 0, 0, 0}},
	} {
		mix, err := ParseMix(tc.mix)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorkload(t, func(s *Settings) { s.Mix = mix })
		var size int
		for _, n := range tc.want {
			size += n
		}
		g := w.Generator(1, 5)
		var orders [2][]OpType
		for block := range 2 {
			var counts [NumOpTypes]int
			for i := range size {
				op := g.Command(int64(block*size + i)).Type
				counts[op]++
				orders[block] = append(orders[block], op)
			}
			if counts != tc.want {
				t.Errorf("mix %s, block %d: %v, want %v", tc.mix, block, counts, tc.want)
			}
		}
		if slices.Equal(orders[0], orders[1]) && tc.mix != "find=1" {
			t.Errorf("mix %s: two blocks in the same order", tc.mix)
		}
	}
}

// Where operation types come in a block is uniform when none inserts or
// deletes, and otherwise every block inserts before it deletes.
func TestOrder(t *testing.T) {
	w := newWorkload(t, func(s *Settings) { s.Mix = Mix{Find: 1, Update: 2, Aggregate: 1} })
	g := w.Generator(1, 0)
	var places [NumOpTypes][]int64
	for op := range places {
		places[op] = make([]int64, 20)
	}
	for block := range int64(2000) {
		g.arrange(block)
		for i, op := range g.ops {
			places[op][i/5]++
		}
	}
	for _, op := range []OpType{Find, UpdateOne, UpdateMany, Aggregate} {
		checkUniform(t, "place of "+op.String(), places[op])
	}

	g = newWorkload(t, nil).Generator(1, 0)
	for block := range int64(2000) {
		g.arrange(block)
		for i := range g.ops {
			if g.births[i] < g.deaths[i] {
				t.Fatalf("block %d: %d inserted and %d deleted before command %d", block, g.births[i], g.deaths[i], i)
			}
		}
	}
}

func TestKeysAreOwnedSeededAndUniform(t *testing.T) {
	const size, workers = 2000, 7
	w := newWorkload(t, func(s *Settings) {
		s.Size, s.Workers = size, workers
		s.Mix.Aggregate = 10
		s.FindBatch, s.InsertBatch = 13, 13
	})
	for _, worker := range []int{0, 3, workers - 1} {
		numbers := map[string]int64{} // of the _ids the worker has seen or inserted
		for j := range int64(size) {
			id := seededID(j)
			numbers[string(id[:])] = j
		}
		g := w.Generator(2, worker)
		var counts [NumOpTypes][]int64
		for op := range counts {
			counts[op] = make([]int64, w.share(worker))
		}
		count := func(op OpType, number int64) {
			if number < 0 || number >= size || number%workers != int64(worker) {
				t.Fatalf("worker %d: %s of number %d, which is not of its share", worker, op, number)
			}
			counts[op][number/workers]++
		}
		for i := range int64(25_000) {
			c := g.Command(i)
			if c.Type == InsertOne || c.Type == InsertMany {
				for _, d := range c.Documents {
					id := d.Lookup("_id").ObjectID()
					numbers[string(id[:])] = w.numberOf(d.Lookup("flight_id").Int64())
					count(c.Type, numbers[string(id[:])])
				}
				continue
			}
			distinct := map[string]bool{}
			for _, key := range keys(t, c) {
				if distinct[string(key.Value)] {
					t.Fatalf("command %d: a key twice: %v", i, c.Filter)
				}
				distinct[string(key.Value)] = true
				if key.Type == bson.TypeObjectID {
					number, ok := numbers[string(key.Value)]
					if !ok {
						t.Fatalf("command %d: %s of an _id that never was: %v", i, c.Type, key)
					}
					count(c.Type, number)
				} else {
					count(c.Type, w.numberOf(key.Int64()))
				}
			}
			want := w.settings.FindBatch
			if c.Type == UpdateOne || c.Type == DeleteOne {
				want = 1
			}
			if len(distinct) != want {
				t.Fatalf("command %d: %s with %d keys, want %d", i, c.Type, len(distinct), want)
			}
		}
		for op := range OpType(NumOpTypes) {
			checkUniform(t, fmt.Sprintf("worker %d, %s", worker, op), counts[op])
		}
	}
}

// model is a collection as a server keeps it, for the commands of one worker.
type model struct {
	t       *testing.T
	records int64
	byID    map[bson.ObjectID]*record
	byKey   map[int64][]*record // by flight_id, in the order of insertion
}

type record struct {
	serial    int64
	id        bson.ObjectID
	flightID  int64
	seats     int32
	planeType string
	duration  int32
}

func (m *model) insert(raw bson.Raw) {
	d := decode(m.t, raw)
	if m.byID[d.ID] != nil {
		m.t.Fatalf("duplicate key: _id %v", d.ID)
	}
	m.records++
	r := &record{m.records, d.ID, d.FlightID, d.Available, d.Equipment.PlaneType, d.Duration}
	m.byID[d.ID] = r
	m.byKey[d.FlightID] = append(m.byKey[d.FlightID], r)
}

func (m *model) remove(r *record) {
	delete(m.byID, r.id)
	m.byKey[r.flightID] = slices.DeleteFunc(m.byKey[r.flightID], func(other *record) bool { return other == r })
}

// first is the document that a scan of any of the three indexes that start
// with flight_id meets first; it fails when they do not agree.
func (m *model) first(flightID int64) *record {
	list := m.byKey[flightID]
	if len(list) == 0 {
		return nil
	}
	byPlane := slices.MinFunc(list, func(a, b *record) int {
		if c := strings.Compare(a.planeType, b.planeType); c != 0 {
			return c
		}
		return int(a.serial - b.serial)
	})
	bySeats := slices.MinFunc(list, func(a, b *record) int {
		if a.seats != b.seats {
			return int(a.seats - b.seats)
		}
		return int(a.serial - b.serial)
	})
	byDuration := slices.MinFunc(list, func(a, b *record) int {
		if a.duration != b.duration {
			return int(a.duration - b.duration)
		}
		if a.seats != b.seats {
			return int(a.seats - b.seats)
		}
		return int(a.serial - b.serial)
	})
	if byPlane != bySeats || byPlane != byDuration || byPlane != list[0] {
		m.t.Fatalf("flight_id %d: the indexes disagree about the first document", flightID)
	}
	return list[0]
}

// outcome sums up what a server answers to commands of one type.
type outcome struct{ commands, keys, matched, inserted, deleted int64 }

func (m *model) run(c *Command, o *outcome) {
	o.commands++
	o.inserted += int64(len(c.Documents))
	for _, d := range c.Documents {
		m.insert(bytes.Clone(d))
	}
	if len(c.Documents) > 0 {
		return
	}
	if len(c.Update) > 0 {
		inc, ok := c.Update.Lookup("$inc", "seats_available").Int32OK()
		if !ok || inc != -1 {
			m.t.Fatalf("update %v does not change every document", c.Update)
		}
	}
	for _, key := range keys(m.t, c) {
		o.keys++
		var hits []*record
		switch {
		case key.Type == bson.TypeObjectID:
			if r := m.byID[key.ObjectID()]; r != nil {
				hits = []*record{r}
			}
		case c.Type == UpdateOne || c.Type == DeleteOne:
			if r := m.first(key.Int64()); r != nil {
				hits = []*record{r}
			}
		default:
			hits = m.byKey[key.Int64()]
		}
		o.matched += int64(len(hits))
		for _, r := range hits {
			switch c.Type {
			case UpdateOne, UpdateMany:
				r.seats--
			case DeleteOne, DeleteMany:
				m.remove(r)
				o.deleted++
			}
		}
	}
}

// The sequence is run against a model of a server: inserts never collide,
// the first document of a flight is the same in every index, and with as
// many inserts as deletes the collection keeps its size and commands keep
// finding what they look for, sixteen generations of documents on.
func TestSequenceAgainstModel(t *testing.T) {
	const all = 100
	for _, tc := range []struct {
		name                string
		size                int64
		mix                 string
		blocks              int64
		updated, deleted    int64 // least per cent of keys of updates and deletes that match
		found               int64 // least per cent of keys of finds
		smallest, largest   int64 // documents in the end, per cent of those seeded
		findBatch, newBatch int
	}{
		{"default", 1000, "find=60,update=20,delete=10,insert=5,bulk_insert=5", 150, all, all, all, 100, 100, 10, 10},
		{"small share", 40, "find=60,update=20,delete=10,insert=5,bulk_insert=5", 100, all, all, all, 100, 100, 10, 10},
		{"reads only", 400, "find=90,aggregate=10", 30, 0, 0, all, 100, 100, 10, 10},
		{"updates only", 400, "update=1", 30, all, 0, 0, 100, 100, 10, 10},
		{"growing", 400, "find=50,update=20,delete=10,insert=10,bulk_insert=10", 40, all, all, all, 1150, 1250, 10, 10},
		{"large inserts", 400, "find=60,update=20,delete=19,bulk_insert=1", 40, all, all, all, 3900, 3950, 10, 200},
		{"inserting", 400, "find=50,update=20,insert=20,bulk_insert=10", 10, all, 0, all, 600, 700, 10, 10},
		{"large deletes", 400, "find=60,update=20,delete=10,insert=5,bulk_insert=5", 40, 15, 3, 15, 5, 60, 200, 10},
		{"draining", 4000, "find=49,update=1,delete=45,insert=5", 40, 0, 0, 0, 0, 1, 10, 10},
		{"emptying", 4000, "find=49,update=1,delete=50", 10, 0, 0, 0, 0, 0, 10, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mix, err := ParseMix(tc.mix)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorkload(t, func(s *Settings) {
				s.Size, s.Workers, s.Mix = tc.size, 2, mix
				s.FindBatch, s.InsertBatch = tc.findBatch, tc.newBatch
			})
			m := &model{t: t, byID: map[bson.ObjectID]*record{}, byKey: map[int64][]*record{}}
			for j := int64(1); j < tc.size; j += 2 {
				m.insert(w.AppendDocument(nil, j))
			}
			share := int64(len(m.byID))
			g := w.Generator(1, 1)
			var outcomes [NumOpTypes]outcome
			block := int64(len(w.block))
			for i := range tc.blocks * block {
				c := g.Command(i)
				m.run(c, &outcomes[c.Type])
			}
			var inserted, deleted int64
			for op, o := range outcomes {
				t.Logf("%-10s %+v", OpType(op), o)
				inserted, deleted = inserted+o.inserted, deleted+o.deleted
			}
			t.Logf("%d documents at first, %d in the end", share, len(m.byID))
			if inserted != tc.blocks*w.births {
				t.Errorf("%d inserted, want %d", inserted, tc.blocks*w.births)
			}
			if int64(len(m.byID)) != share+inserted-deleted {
				t.Errorf("%d documents left of %d + %d - %d", len(m.byID), share, inserted, deleted)
			}
			least := func(name string, percent int64, ops ...OpType) {
				var keys, matched int64
				for _, op := range ops {
					keys, matched = keys+outcomes[op].keys, matched+outcomes[op].matched
				}
				if matched*100 < keys*percent {
					t.Errorf("%s: %d keys matched %d documents, fewer than %d %%", name, keys, matched, percent)
				}
			}
			least("find", tc.found, Find, Aggregate)
			least("update", tc.updated, UpdateOne, UpdateMany)
			least("delete", tc.deleted, DeleteOne, DeleteMany)
			if n := int64(len(m.byID)); n*100 < share*tc.smallest || n*100 > share*tc.largest {
				t.Errorf("%d documents in the end of %d, not %d to %d %%", n, share, tc.smallest, tc.largest)
			}
		})
	}
}

func TestNoAllocations(t *testing.T) {
	w := newWorkload(t, func(s *Settings) { s.Mix.Aggregate = 5 })
	g := w.Generator(1, 4)
	g.Command(0)
	for op := range OpType(NumOpTypes) {
		i := int64(slices.Index(g.ops, op))
		chain := NewChain()
		var canonical []byte
		work := func() {
			canonical = g.Command(i).AppendCanonical(canonical[:0])
			chain.Add(canonical)
		}
		work()
		if n := testing.AllocsPerRun(500, work); n > 0 {
			t.Errorf("%s: %v allocations", op, n)
		}
	}
	buffer := w.AppendDocument(nil, 77)
	if n := testing.AllocsPerRun(500, func() { buffer = w.AppendDocument(buffer[:0], 77) }); n > 0 {
		t.Errorf("document: %v allocations", n)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.Workload = "trains" }, `--workload "trains": the only workload is "flights"`},
		{func(s *Settings) { s.Size = 0 }, "size 0: must be 1 to 1000000M documents"},
		{func(s *Settings) { s.Size = MaxSize + 1 }, "size 1000000000001: must be 1 to 1000000M documents"},
		{func(s *Settings) { s.Size = 159 }, "size 159: must be at least --workers x --find-batch = 160 documents"},
		{func(s *Settings) { s.Workers = 0 }, "--workers 0: must be 1 to 1024"},
		{func(s *Settings) { s.Workers = 1025 }, "--workers 1025: must be 1 to 1024"},
		{func(s *Settings) { s.OpsPerWorker = 0 }, "--ops-per-worker 0: must be 1 to 10000000000"},
		{func(s *Settings) { s.InsertBatch = 1001 }, "--insert-batch 1001: must be 1 to 1000"},
		{func(s *Settings) { s.FindBatch = 0 }, "--find-batch 0: must be 1 to 1000"},
		{func(s *Settings) { s.FindLimit = -1 }, "--find-limit -1: must be 0 to 1000000"},
		{func(s *Settings) { s.Mix = Mix{} }, "--mix find=0,update=0,delete=0,insert=0,bulk_insert=0: all weights are 0"},
		{func(s *Settings) { s.Mix.Find = -60 }, "weight -60 of find is outside 0 to 10000"},
		{func(s *Settings) { s.Workers, s.FindBatch = 0, 0 }, "--workers 0: must be 1 to 1024\n--find-batch 0"},
	} {
		s := DefaultSettings()
		tc.change(&s)
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
	s := DefaultSettings()
	s.Size = 160
	w, err := New(s)
	if err != nil {
		t.Fatalf("the smallest size: %v", err)
	}
	if w.Settings() != s {
		t.Errorf("settings %+v, want %+v", w.Settings(), s)
	}
}

func TestGeneratorRefuses(t *testing.T) {
	w := newWorkload(t, nil)
	for _, c := range []struct{ iteration, worker int }{{1, -1}, {1, 16}, {-1, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a generator for %+v", c)
				}
			}()
			w.Generator(c.iteration, c.worker)
		}()
	}
}
