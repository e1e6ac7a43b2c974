package workload

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Generator makes the commands of one worker in one iteration. It reuses its
// buffers and must not be used by several goroutines at once. Apart from the
// buffers it only holds the order of the block of commands it was last asked
// about, which is computed again for every other block: asking for commands
// in sequence is fast, and asking in any other order gives the same commands.
type Generator struct {
	workload          *Workload
	iteration, worker int
	share             int64       // seeded documents of the worker
	order             permutation // place in the order of deletion -> index in the share

	block          int64    // the block held, -1 for none
	ops            []OpType // its operation types in order
	births, deaths []int32  // documents inserted, and asked to be deleted, in it before each command
	dead, mortal   int64    // see population
	command        Command  // what Command returns
	filter, update []byte   // its parts; filter also holds pipelines
	documents      []byte
}

// Generator returns a generator for a worker (from 0) in an iteration (from
// 0; bench counts from 1). It panics when there is no such worker.
func (w *Workload) Generator(iteration, worker int) *Generator {
	if worker < 0 || worker >= w.settings.Workers || iteration < 0 {
		panic(fmt.Sprintf("workload: no worker %d of %d in iteration %d", worker, w.settings.Workers, iteration))
	}
	g := &Generator{
		workload:  w,
		iteration: iteration,
		worker:    worker,
		share:     w.share(worker),
		block:     -1,
		ops:       make([]OpType, len(w.block)),
		births:    make([]int32, len(w.block)),
		deaths:    make([]int32, len(w.block)),
	}
	g.order = newPermutation(g.share, newStream(w.settings.Seed, domainShareOrder, int64(iteration), int64(worker), 0))
	g.command.Documents = make([]bson.Raw, 0, max(1, w.settings.InsertBatch))
	return g
}

// arrange puts the commands of a block in order. It draws one of all orders
// (Fisher-Yates), and then begins it where the documents inserted so far
// exceed the deleted ones least, and goes around. From there on the block has
// never deleted more than it has inserted, if the mix inserts as many
// documents as it deletes: so no command meets a lack of documents that the
// block makes up for later.
func (g *Generator) arrange(block int64) {
	w := g.workload
	copy(g.ops, w.block)
	random := newStream(w.settings.Seed, domainBlock, int64(g.iteration), int64(g.worker), block)
	for i := len(g.ops) - 1; i > 0; i-- {
		k := random.below(int64(i + 1))
		g.ops[i], g.ops[k] = g.ops[k], g.ops[i]
	}
	var excess, least int32
	begin := 0
	for i, t := range g.ops {
		if excess < least {
			begin, least = i, excess
		}
		excess += w.born(t) - w.died(t)
	}
	slices.Reverse(g.ops[:begin])
	slices.Reverse(g.ops[begin:])
	slices.Reverse(g.ops)

	var births, deaths int32
	for i, t := range g.ops {
		g.births[i], g.deaths[i] = births, deaths
		births += w.born(t)
		deaths += w.died(t)
	}
	g.dead, g.mortal = g.population(block)
	g.block = block
}

// population says how many documents the worker has deleted before a block,
// and how many of those that the block's deletes ask for will be there.
func (g *Generator) population(block int64) (dead, mortal int64) {
	w := g.workload
	shrink := w.deaths - w.births // documents fewer after every block
	if shrink <= 0 || block < g.share/shrink {
		return block * w.deaths, w.deaths
	}
	// The mix deletes more than it inserts, and in block last the documents
	// run out: the ones left then are deleted, and from the next block on
	// those that the block before inserted. Other deletes find nothing.
	last, left := g.share/shrink, g.share%shrink
	if block == last {
		return last * w.deaths, left
	}
	return last*w.deaths + left + (block-last-1)*w.births, w.births
}

// Command makes command i (from 0) of the worker. The result and all it
// refers to are valid until the next call.
func (g *Generator) Command(i int64) *Command {
	w, c := g.workload, &g.command
	block, at := i/int64(len(w.block)), i%int64(len(w.block))
	if block != g.block {
		g.arrange(block)
	}
	births := block*w.births + int64(g.births[at]) // documents inserted before command i
	next := g.dead + int64(g.deaths[at])           // place, in the order of deletion, of its deletes
	deaths := min(next, g.dead+g.mortal)           // documents deleted before command i
	random := newStream(w.settings.Seed, domainCommand, int64(g.iteration), int64(g.worker), i)

	*c = Command{
		Type:       g.ops[at],
		Shape:      shapes[g.ops[at]],
		Database:   databaseName,
		Collection: collectionName,
		Documents:  c.Documents[:0],
	}
	switch c.Type {
	case Find:
		c.Filter = g.flightIDsFilter(&random)
		c.Projection = w.projection
		c.Limit = int64(w.settings.FindLimit)
		c.BatchSize = int32(w.settings.FindBatch)
	case UpdateOne:
		c.Filter = g.flightIDFilter(random.below(g.share))
		c.Update = g.change(&random)
	case UpdateMany:
		c.Filter = g.objectIDsFilter(g.spread(&random), deaths)
		c.Update = g.change(&random)
	case DeleteOne:
		c.Filter = g.flightIDFilter(g.order.at(next % g.share))
	case DeleteMany:
		c.Filter = g.objectIDsFilter(progression{next % g.share, 1}, next)
	case InsertOne:
		g.insert(births, 1)
	case InsertMany:
		g.insert(births, w.settings.InsertBatch)
	case Aggregate:
		c.Pipeline = g.pipeline(&random)
	}
	return c
}

// number is the document number at an index of the worker's share.
func (g *Generator) number(index int64) int64 {
	return int64(g.worker) + index*int64(g.workload.settings.Workers)
}

// progression is the sequence start, start+step, … modulo the share.
type progression struct{ start, step int64 }

// spread returns a progression of FindBatch different places. Start and step
// are uniform, so each place is uniform in the share and so is each pair.
func (g *Generator) spread(random *stream) progression {
	p := progression{start: random.below(g.share)}
	for {
		p.step = random.below(g.share)
		// A progression comes back to its start before it meets any other
		// of its places again.
		place, k := p.start, 1
		for ; k < g.workload.settings.FindBatch; k++ {
			if place = g.after(place, p.step); place == p.start {
				break
			}
		}
		if k == g.workload.settings.FindBatch {
			return p
		}
	}
}

// after is the place step behind another one, around the share.
func (g *Generator) after(place, step int64) int64 {
	if place += step; place >= g.share {
		place -= g.share
	}
	return place
}

// flightIDFilter is {flight_id: …} for an index of the share.
func (g *Generator) flightIDFilter(index int64) bson.Raw {
	at, dst := openDocument(g.filter[:0])
	dst = appendInt64(dst, "\x12flight_id\x00", g.workload.flightID(g.number(index)))
	g.filter = closeDocument(dst, at)
	return g.filter
}

// flightIDsFilter is {flight_id: {$in: […]}} for different random numbers.
func (g *Generator) flightIDsFilter(random *stream) bson.Raw {
	g.filter = g.appendFlightIDs(g.filter[:0], random)
	return g.filter
}

func (g *Generator) appendFlightIDs(dst []byte, random *stream) []byte {
	p := g.spread(random)
	filter, dst := openDocument(dst)
	dst = append(dst, "\x03flight_id\x00"...)
	condition, dst := openDocument(dst)
	dst = append(dst, "\x04$in\x00"...)
	list, dst := openDocument(dst)
	for k := range g.workload.settings.FindBatch {
		dst = appendIndex(dst, typeInt64, int64(k))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.workload.flightID(g.number(p.start))))
		p.start = g.after(p.start, p.step)
	}
	dst = closeDocument(dst, list)
	dst = closeDocument(dst, condition)
	return closeDocument(dst, filter)
}

// objectIDsFilter is {_id: {$in: […]}} for FindBatch places in the order of
// deletion: the oldest document of each, after deaths deletes.
func (g *Generator) objectIDsFilter(p progression, deaths int64) bson.Raw {
	filter, dst := openDocument(g.filter[:0])
	dst = append(dst, "\x03_id\x00"...)
	condition, dst := openDocument(dst)
	dst = append(dst, "\x04$in\x00"...)
	list, dst := openDocument(dst)
	for k := range g.workload.settings.FindBatch {
		id := g.oldest(p.start, deaths)
		dst = appendIndex(dst, typeObjectID, int64(k))
		dst = append(dst, id[:]...)
		p.start = g.after(p.start, p.step)
	}
	dst = closeDocument(dst, list)
	dst = closeDocument(dst, condition)
	g.filter = closeDocument(dst, filter)
	return g.filter
}

// oldest is the _id of the oldest document of the number at a place in the
// order of deletion, after deaths deletes. Deletes and inserts go through the
// places in order and around: the number has lost one document for every
// time that deletes passed its place, the seeded one first, and nth insert is
// the one that takes place n mod share. If no document is left, oldest is
// the _id of the next that the number will get.
func (g *Generator) oldest(place, deaths int64) objectID {
	lost := deaths / g.share
	if place < deaths%g.share {
		lost++
	}
	if lost == 0 {
		return seededID(g.number(g.order.at(place)))
	}
	return insertedID(g.iteration, g.worker, (lost-1)*g.share+place)
}

// change is the update of updateOne and updateMany: somebody booked a seat,
// and status and gate are announced. Taking a seat changes every document
// it reaches, and keeps a flight's oldest document first in the indexes
// that contain seats_available. The seats of a flight that is updated much
// more often than deleted may go below 0: it is overbooked.
func (g *Generator) change(random *stream) bson.Raw {
	update, dst := openDocument(g.update[:0])
	dst = append(dst, "\x03$set\x00"...)
	set, dst := openDocument(dst)
	dst = appendText(dst, "\x02status\x00", pick(random, statuses))
	dst = appendGate(dst, random)
	dst = closeDocument(dst, set)
	dst = append(dst, "\x03$inc\x00"...)
	inc, dst := openDocument(dst)
	dst = appendInt32(dst, "\x10seats_available\x00", -1)
	dst = closeDocument(dst, inc)
	g.update = closeDocument(dst, update)
	return g.update
}

// insert makes the count documents that follow the births before them.
func (g *Generator) insert(births int64, count int) {
	dst := g.documents[:0]
	for n := births; n < births+int64(count); n++ {
		dst = g.workload.appendFlight(dst,
			insertedID(g.iteration, g.worker, n),
			g.number(g.order.at(n%g.share)),
			newStream(g.workload.settings.Seed, domainInserted, int64(g.iteration), int64(g.worker), n))
	}
	g.documents = dst
	for len(dst) > 0 {
		size := binary.LittleEndian.Uint32(dst)
		g.command.Documents = append(g.command.Documents, bson.Raw(dst[:size:size]))
		dst = dst[size:]
	}
}

// pipeline counts flights and free seats by status over random numbers:
// [{$match: {flight_id: {$in: […]}}}, {$group: {_id: "$status", flights:
// {$sum: 1}, seats: {$sum: "$seats_available"}}}, {$sort: {_id: 1}}].
func (g *Generator) pipeline(random *stream) bson.Raw {
	list, dst := openDocument(g.filter[:0])
	dst = append(dst, "\x030\x00"...)
	stage, dst := openDocument(dst)
	dst = append(dst, "\x03$match\x00"...)
	dst = g.appendFlightIDs(dst, random)
	dst = closeDocument(dst, stage)

	dst = append(dst, "\x031\x00"...)
	stage, dst = openDocument(dst)
	dst = append(dst, "\x03$group\x00"...)
	group, dst := openDocument(dst)
	dst = appendText(dst, "\x02_id\x00", "$status")
	dst = append(dst, "\x03flights\x00"...)
	sum, dst := openDocument(dst)
	dst = appendInt32(dst, "\x10$sum\x00", 1)
	dst = closeDocument(dst, sum)
	dst = append(dst, "\x03seats\x00"...)
	sum, dst = openDocument(dst)
	dst = appendText(dst, "\x02$sum\x00", "$seats_available")
	dst = closeDocument(dst, sum)
	dst = closeDocument(dst, group)
	dst = closeDocument(dst, stage)

	dst = append(dst, "\x032\x00"...)
	stage, dst = openDocument(dst)
	dst = append(dst, "\x03$sort\x00"...)
	sort, dst := openDocument(dst)
	dst = appendInt32(dst, "\x10_id\x00", 1)
	dst = closeDocument(dst, sort)
	dst = closeDocument(dst, stage)
	g.filter = closeDocument(dst, list)
	return g.filter
}

// shapes are the query shapes by operation type.
var shapes = [NumOpTypes]string{
	Find:       "find {flight_id: {$in}}",
	UpdateOne:  "updateOne {flight_id}",
	UpdateMany: "updateMany {_id: {$in}}",
	DeleteOne:  "deleteOne {flight_id}",
	DeleteMany: "deleteMany {_id: {$in}}",
	InsertOne:  "insertOne",
	InsertMany: "insertMany",
	Aggregate:  "aggregate [$match {flight_id: {$in}}, $group status, $sort]",
}

// projected are the fields that finds ask for, besides leaving out _id.
var projected = [...]string{
	"flight_id", "flight_code", "origin", "destination", "flight_date",
	"status", "gate", "seats_available",
}

// newProjection is {_id: 0, flight_id: 1, …}.
func newProjection() bson.Raw {
	at, dst := openDocument(nil)
	dst = appendInt32(dst, "\x10_id\x00", 0)
	for _, field := range projected {
		dst = appendInt32(dst, "\x10"+field+"\x00", 1)
	}
	return closeDocument(dst, at)
}
