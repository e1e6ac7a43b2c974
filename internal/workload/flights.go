package workload

import (
	"encoding/binary"
	"strconv"
)

const (
	databaseName   = "airline"
	collectionName = "flights"
)

// Collections returns the collections of the workload with their indexes,
// in the order in which they are to be created.
func (w *Workload) Collections() []Collection {
	type key struct {
		name  string
		order int32
	}
	index := func(keys ...key) Index {
		var name, doc []byte
		at, doc := openDocument(doc)
		for i, k := range keys {
			if i > 0 {
				name = append(name, '_')
			}
			name = append(name, k.name...)
			name = append(name, '_')
			name = strconv.AppendInt(name, int64(k.order), 10)
			doc = append(doc, typeInt32)
			doc = append(doc, k.name...)
			doc = append(doc, 0)
			doc = binary.LittleEndian.AppendUint32(doc, uint32(k.order))
		}
		return Index{Name: string(name), Keys: closeDocument(doc, at)}
	}
	return []Collection{{
		Database: databaseName,
		Name:     collectionName,
		Indexes: []Index{
			index(key{"flight_id", 1}, key{"equipment.plane_type", 1}),
			index(key{"flight_id", 1}, key{"seats_available", 1}),
			index(key{"flight_id", 1}, key{"duration_minutes", 1}, key{"seats_available", 1}),
			index(key{"equipment.plane_type", 1}),
			index(key{"origin", 1}, key{"destination", 1}, key{"flight_date", -1}),
			index(key{"status", 1}),
			index(key{"flight_date", 1}),
		},
	}}
}

// objectID is the _id of a document: 4 bytes in the place of an ObjectID's
// time and 8 bytes of a serial number, big-endian, so that seeded documents
// sort by number and inserted ones after them in the order a worker inserts
// them, as the _id values that drivers make do.
//
// Seeded document j has time idEpoch and serial j. The nth document that a
// worker inserts (from 0) has time idEpoch + 1 + iteration and serial
// n<<16 | worker. The two differ in time; two inserted ones with equal bytes
// have equal iteration, n and worker, since worker < 2^10 and n < 2^48: so
// no _id occurs twice.
type objectID [12]byte

const idEpoch = 0x68000000 // 16 April 2025

func seededID(j int64) objectID {
	return newObjectID(idEpoch, uint64(j))
}

func insertedID(iteration, worker int, n int64) objectID {
	return newObjectID(idEpoch+1+uint32(iteration), uint64(n)<<16|uint64(worker))
}

func newObjectID(time uint32, serial uint64) (id objectID) {
	binary.BigEndian.PutUint32(id[:4], time)
	binary.BigEndian.PutUint64(id[4:], serial)
	return id
}

// flightID is the flight_id of a document number, in [1, 2^48]: exact also
// where numbers are doubles. Different numbers have different ones.
func (w *Workload) flightID(j int64) int64 { return w.flightIDs.at(j) + 1 }

// AppendDocument appends seeded document j, in [0, Size), as BSON.
func (w *Workload) AppendDocument(dst []byte, j int64) []byte {
	return w.appendFlight(dst, seededID(j), j, newStream(w.settings.Seed, domainSeeded, j, 0, 0))
}

// Ranges of generated values.
const (
	minPassengers, maxPassengers = 8, 28
	minDuration, maxDuration     = 45, 840 // minutes

	firstDate = 1735689600000 // 2025-01-01T00:00:00Z, ms since 1970
	dateStep  = 5 * 60 * 1000 // departures are on whole five minutes
	dateSteps = 730 * 24 * 12 // in two years

	gatesPerPier = 60
)

const piers = "ABCDEFGH"

// appendFlight appends one occurrence of the flight with number j. What all
// documents with that number share comes from the number, the rest from
// random.
func (w *Workload) appendFlight(dst []byte, id objectID, j int64, random stream) []byte {
	flight := newStream(w.settings.Seed, domainFlight, j, 0, 0)
	line := &airlines[flight.below(int64(len(airlines)))]
	origin := flight.below(int64(len(airports)))
	destination := flight.below(int64(len(airports) - 1))
	if destination >= origin {
		destination++
	}
	code := 1 + flight.below(9999)
	duration := minDuration + flight.below(maxDuration-minDuration+1)
	plane := &planes[flight.below(int64(len(planes)))]
	// An arithmetic progression modulo the length with a step that has no
	// common divisor with it: no amenity twice.
	amenityCount := 3 + flight.below(4)
	amenity := flight.below(int64(len(amenities)))
	amenityStep := amenitySteps[flight.below(int64(len(amenitySteps)))]
	passengers := minPassengers + flight.below(maxPassengers-minPassengers+1)

	doc, dst := openDocument(dst)
	dst = append(dst, "\x07_id\x00"...)
	dst = append(dst, id[:]...)
	dst = appendInt64(dst, "\x12flight_id\x00", w.flightID(j))
	dst = appendText(dst, "\x02airline\x00", line.name)

	first, last := pick(&random, firstNames[:]), pick(&random, lastNames[:])
	dst = appendText(dst, "\x02agent_first_name\x00", first)
	dst = appendText(dst, "\x02agent_last_name\x00", last)
	text, dst := openText(dst, "\x02agent_email\x00")
	dst = appendLower(dst, first)
	dst = append(dst, '.')
	dst = appendLower(dst, last)
	dst = append(dst, '@')
	dst = append(dst, pick(&random, mailDomains)...)
	dst = closeText(dst, text)

	dst = appendInt64(dst, "\x09flight_date\x00", firstDate+dateStep*random.below(dateSteps))
	dst = appendText(dst, "\x02origin\x00", airports[origin])
	dst = appendText(dst, "\x02destination\x00", airports[destination])
	text, dst = openText(dst, "\x02flight_code\x00")
	dst = append(dst, line.code...)
	dst = strconv.AppendInt(dst, code, 10)
	dst = closeText(dst, text)
	dst = appendText(dst, "\x02status\x00", pick(&random, statuses))
	dst = appendInt32(dst, "\x10duration_minutes\x00", int32(duration))
	dst = appendGate(dst, &random)

	dst = append(dst, "\x03equipment\x00"...)
	equipment, dst := openDocument(dst)
	dst = appendText(dst, "\x02plane_type\x00", plane.name)
	dst = appendInt32(dst, "\x10total_seats\x00", int32(plane.seats))
	dst = append(dst, "\x04amenities\x00"...)
	list, dst := openDocument(dst)
	for i := range amenityCount {
		dst = appendIndex(dst, typeText, i)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = append(dst, amenities[(amenity+i*amenityStep)%int64(len(amenities))]...)
		dst = closeText(dst, at)
	}
	dst = closeDocument(dst, list)
	dst = closeDocument(dst, equipment)

	dst = appendInt32(dst, "\x10seats_available\x00", int32(plane.seats-passengers))
	dst = append(dst, "\x04passengers\x00"...)
	list, dst = openDocument(dst)
	var taken [maxSeats/64 + 1]uint64 // a bit for every seat
	for i := range passengers {
		seat := random.below(plane.seats)
		for taken[seat/64]>>(seat%64)&1 != 0 {
			seat = random.below(plane.seats)
		}
		taken[seat/64] |= 1 << (seat % 64)
		dst = appendIndex(dst, typeDocument, i)
		dst = appendPassenger(dst, &random, line.ticket, 1+seat/plane.perRow, seatLetters[seat%plane.perRow])
	}
	dst = closeDocument(dst, list)
	return closeDocument(dst, doc)
}

// appendPassenger appends {passenger_id, name, ticket_number, seat_number}.
// Passengers are most of a document, so this copies constant stretches of
// BSON whole and fills the gaps.
func appendPassenger(dst []byte, random *stream, ticket string, row int64, letter byte) []byte {
	const (
		head = "\x00\x00\x00\x00" +
			"\x10passenger_id\x00" + "\x00\x00\x00\x00" +
			"\x02name\x00" + "\x00\x00\x00\x00"
		idAt, nameAt = 18, 28 // places of the number, and of the name's length
	)
	start := len(dst)
	dst = append(dst, head...)
	// One random number has the bits for three choices.
	random64 := random.next()
	id := 100_000_000 + random64>>32*1_900_000_000>>32
	binary.LittleEndian.PutUint32(dst[start+idAt:], uint32(id))
	dst = append(dst, firstNames[random64%uint64(len(firstNames))]...)
	dst = append(dst, ' ')
	dst = append(dst, lastNames[random64/uint64(len(firstNames))%uint64(len(lastNames))]...)
	binary.LittleEndian.PutUint32(dst[start+nameAt:], uint32(len(dst)-start-len(head)+1))
	// A ticket number has 14 characters, a seat number two or three.
	dst = append(dst, "\x00\x02ticket_number\x00\x0f\x00\x00\x00"...)
	dst = append(dst, ticket...)
	dst = strconv.AppendInt(dst, 1_000_000_000+random.below(9_000_000_000), 10)
	dst = append(dst, "\x00\x02seat_number\x00\x04\x00\x00\x00"...)
	if row < 10 {
		dst[len(dst)-4] = 3
	}
	dst = strconv.AppendInt(dst, row, 10)
	dst = append(dst, letter, 0)
	return closeDocument(dst, start)
}

// appendGate appends the element gate, such as C17.
func appendGate(dst []byte, random *stream) []byte {
	text, dst := openText(dst, "\x02gate\x00")
	dst = append(dst, piers[random.below(int64(len(piers)))])
	dst = strconv.AppendInt(dst, 1+random.below(gatesPerPier), 10)
	return closeText(dst, text)
}

func pick(random *stream, list []string) string {
	return list[random.below(int64(len(list)))]
}

// The appending of BSON (bsonspec.org). Keys are given with their element
// type in front and the terminating zero behind, ready to be copied.

const (
	typeText     = 0x02
	typeDocument = 0x03
	typeArray    = 0x04
	typeObjectID = 0x07
	typeInt32    = 0x10
	typeInt64    = 0x12
)

// openDocument leaves room for the length of a document or an array and
// returns where that is.
func openDocument(dst []byte) (int, []byte) {
	return len(dst), append(dst, 0, 0, 0, 0)
}

func closeDocument(dst []byte, at int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

func openText(dst []byte, key string) (int, []byte) {
	dst = append(dst, key...)
	return len(dst), append(dst, 0, 0, 0, 0)
}

func closeText(dst []byte, at int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

func appendText(dst []byte, key, text string) []byte {
	dst = append(dst, key...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)+1))
	dst = append(dst, text...)
	return append(dst, 0)
}

func appendInt32(dst []byte, key string, n int32) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, key...), uint32(n))
}

func appendInt64(dst []byte, key string, n int64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, key...), uint64(n))
}

// appendIndex appends the type and key of element i of an array.
func appendIndex(dst []byte, elementType byte, i int64) []byte {
	dst = strconv.AppendInt(append(dst, elementType), i, 10)
	return append(dst, 0)
}

// appendLower appends a name of ASCII letters in lower case.
func appendLower(dst []byte, name string) []byte {
	for i := range len(name) {
		dst = append(dst, name[i]|0x20)
	}
	return dst
}
