package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func newWorkload(t testing.TB, change func(*Settings)) *Workload {
	t.Helper()
	s := DefaultSettings()
	if change != nil {
		change(&s)
	}
	w, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type document struct {
	ID            bson.ObjectID `bson:"_id"`
	FlightID      int64         `bson:"flight_id"`
	Airline       string        `bson:"airline"`
	AgentFirst    string        `bson:"agent_first_name"`
	AgentLast     string        `bson:"agent_last_name"`
	AgentEmail    string        `bson:"agent_email"`
	Date          time.Time     `bson:"flight_date"`
	Origin        string        `bson:"origin"`
	Destination   string        `bson:"destination"`
	Code          string        `bson:"flight_code"`
	Status        string        `bson:"status"`
	Duration      int32         `bson:"duration_minutes"`
	Gate          string        `bson:"gate"`
	Equipment     equipment     `bson:"equipment"`
	Available     int32         `bson:"seats_available"`
	Passengers    []passenger   `bson:"passengers"`
	encodedLength int
}

type equipment struct {
	PlaneType string   `bson:"plane_type"`
	Seats     int32    `bson:"total_seats"`
	Amenities []string `bson:"amenities"`
}

type passenger struct {
	ID     int32  `bson:"passenger_id"`
	Name   string `bson:"name"`
	Ticket string `bson:"ticket_number"`
	Seat   string `bson:"seat_number"`
}

func decode(t testing.TB, raw bson.Raw) document {
	t.Helper()
	if err := raw.Validate(); err != nil {
		t.Fatalf("invalid BSON: %v", err)
	}
	d := document{encodedLength: len(raw)}
	if err := bson.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// insertedDocuments collects the first n documents that a worker inserts.
func insertedDocuments(t testing.TB, w *Workload, iteration, worker, n int) []document {
	var list []document
	g := w.Generator(iteration, worker)
	for i := int64(0); len(list) < n; i++ {
		for _, raw := range g.Command(i).Documents {
			list = append(list, decode(t, raw))
		}
	}
	return list
}

func TestDocumentFields(t *testing.T) {
	w := newWorkload(t, nil)
	raw := bson.Raw(w.AppendDocument(nil, 0))
	elements, err := raw.Elements()
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, e := range elements {
		fields = append(fields, e.Key()+" "+e.Value().Type.String())
	}
	want := []string{
		"_id objectID", "flight_id 64-bit integer", "airline string",
		"agent_first_name string", "agent_last_name string", "agent_email string",
		"flight_date UTC datetime", "origin string", "destination string",
		"flight_code string", "status string", "duration_minutes 32-bit integer",
		"gate string", "equipment embedded document", "seats_available 32-bit integer",
		"passengers array",
	}
	if !slices.Equal(fields, want) {
		t.Errorf("fields\n%q, want\n%q", fields, want)
	}
}

var (
	codePattern   = regexp.MustCompile(`^[A-Z0-9]{2}[1-9]\d{0,3}$`)
	gatePattern   = regexp.MustCompile(`^[A-H][1-9]\d?$`)
	ticketPattern = regexp.MustCompile(`^\d{3}-\d{10}$`)
	seatPattern   = regexp.MustCompile(`^([1-9]\d?)([A-HJK])$`)
	emailPattern  = regexp.MustCompile(`^[a-z]+\.[a-z]+@example\.(com|net|org)$`)
)

// checkDocument checks what holds for every document, seeded or inserted.
func checkDocument(d document) error {
	perRow := int64(0)
	for _, p := range planes {
		if p.name == d.Equipment.PlaneType && p.seats == int64(d.Equipment.Seats) {
			perRow = p.perRow
		}
	}
	first := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case perRow == 0:
		return fmt.Errorf("no plane %q with %d seats", d.Equipment.PlaneType, d.Equipment.Seats)
	case d.Origin == d.Destination:
		return fmt.Errorf("from %s to itself", d.Origin)
	case !slices.Contains(airports[:], d.Origin) || !slices.Contains(airports[:], d.Destination):
		return fmt.Errorf("airports %s, %s", d.Origin, d.Destination)
	case d.FlightID < 1 || d.FlightID > 1<<48:
		return fmt.Errorf("flight_id %d", d.FlightID)
	case d.Date.Before(first) || !d.Date.Before(first.AddDate(2, 0, 0)) || d.Date.Unix()%300 != 0:
		return fmt.Errorf("date %v", d.Date)
	case d.Duration < minDuration || d.Duration > maxDuration:
		return fmt.Errorf("duration %d", d.Duration)
	case !slices.Contains(statuses, d.Status):
		return fmt.Errorf("status %q", d.Status)
	case !codePattern.MatchString(d.Code):
		return fmt.Errorf("code %q", d.Code)
	case !gatePattern.MatchString(d.Gate):
		return fmt.Errorf("gate %q", d.Gate)
	case !emailPattern.MatchString(d.AgentEmail) ||
		!strings.HasPrefix(d.AgentEmail, strings.ToLower(d.AgentFirst+"."+d.AgentLast+"@")):
		return fmt.Errorf("e-mail %q of %s %s", d.AgentEmail, d.AgentFirst, d.AgentLast)
	case len(d.Passengers) < minPassengers || len(d.Passengers) > maxPassengers:
		return fmt.Errorf("%d passengers", len(d.Passengers))
	case int(d.Available) != int(d.Equipment.Seats)-len(d.Passengers):
		return fmt.Errorf("%d of %d seats free with %d passengers", d.Available, d.Equipment.Seats, len(d.Passengers))
	case len(d.Equipment.Amenities) < 3 || len(d.Equipment.Amenities) > 6:
		return fmt.Errorf("amenities %q", d.Equipment.Amenities)
	}
	distinct := map[string]bool{}
	for _, a := range d.Equipment.Amenities {
		if distinct[a] {
			return fmt.Errorf("amenity %s twice", a)
		}
		distinct[a] = true
	}
	for _, p := range d.Passengers {
		seat := seatPattern.FindStringSubmatch(p.Seat)
		if seat == nil || distinct[p.Seat] {
			return fmt.Errorf("seat %q is malformed or taken twice", p.Seat)
		}
		distinct[p.Seat] = true
		var row int64
		if _, err := fmt.Sscan(seat[1], &row); err != nil {
			return err
		}
		column := int64(strings.Index(seatLetters, seat[2]))
		if column >= perRow || (row-1)*perRow+column >= int64(d.Equipment.Seats) {
			return fmt.Errorf("a %s has no seat %s", d.Equipment.PlaneType, p.Seat)
		}
		if !ticketPattern.MatchString(p.Ticket) || p.ID < 100_000_000 || p.ID > 2_000_000_000 || !strings.Contains(p.Name, " ") {
			return fmt.Errorf("passenger %+v", p)
		}
	}
	return nil
}

func TestDocumentsAreSane(t *testing.T) {
	w := newWorkload(t, nil)
	seeded, inserted := int64(0), int64(0)
	const n = 4000
	for j := range int64(n) {
		d := decode(t, w.AppendDocument(nil, j*(w.settings.Size/n)))
		if err := checkDocument(d); err != nil {
			t.Fatalf("document %d: %v", j, err)
		}
		seeded += int64(d.encodedLength)
	}
	for _, d := range insertedDocuments(t, w, 1, 3, n) {
		if err := checkDocument(d); err != nil {
			t.Fatalf("inserted document %v: %v", d.ID, err)
		}
		inserted += int64(d.encodedLength)
	}
	for name, sum := range map[string]int64{"seeded": seeded, "inserted": inserted} {
		if mean := sum / n; mean < 2000 || mean > 3000 {
			t.Errorf("%s documents have %d bytes on average, not 2000 to 3000", name, mean)
		}
	}
}

func TestWordLists(t *testing.T) {
	unique := func(name string, list []string) {
		sorted := slices.Sorted(slices.Values(list))
		if len(slices.Compact(sorted)) != len(list) {
			t.Errorf("%s contain something twice", name)
		}
	}
	unique("airports", airports[:])
	unique("amenities", amenities[:])
	unique("statuses", statuses)
	unique("first names", firstNames[:])
	unique("last names", lastNames[:])
	letters := regexp.MustCompile(`^[A-Z][a-z]+$`)
	for _, name := range slices.Concat(firstNames[:], lastNames[:]) {
		if !letters.MatchString(name) {
			t.Errorf("name %q has more than ASCII letters", name)
		}
	}
	for _, a := range airports {
		if len(a) != 3 {
			t.Errorf("airport %q", a)
		}
	}
	for _, a := range airlines {
		if len(a.code) != 2 || len(a.ticket) != 4 || a.ticket[3] != '-' {
			t.Errorf("airline %+v", a)
		}
	}
	for _, p := range planes {
		if p.seats > maxSeats || p.perRow > int64(len(seatLetters)) || p.seats > 99*p.perRow || p.seats < 2*maxPassengers {
			t.Errorf("plane %+v", p)
		}
	}
	for _, step := range amenitySteps {
		if len(amenities)%2 == 0 && step%2 == 0 || len(amenities)%5 == 0 && step%5 == 0 {
			t.Errorf("amenity step %d", step)
		}
	}
}

func TestKeysAreUnique(t *testing.T) {
	const size = 60_000
	w := newWorkload(t, func(s *Settings) { s.Size = size; s.Workers = 3 })
	ids, flightIDs := map[bson.ObjectID]bool{}, map[int64]bool{}
	var last bson.ObjectID
	for j := range int64(size) {
		raw := bson.Raw(w.AppendDocument(nil, j))
		id, flightID := raw.Lookup("_id").ObjectID(), raw.Lookup("flight_id").Int64()
		if ids[id] || flightIDs[flightID] || slices.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("document %d: _id %v or flight_id %d is not new, or _id not ascending", j, id, flightID)
		}
		ids[id], flightIDs[flightID] = true, true
		last = id
	}
	// Inserted documents have new _ids and flight_ids of seeded documents.
	for iteration := 1; iteration <= 2; iteration++ {
		for worker := range 3 {
			for _, d := range insertedDocuments(t, w, iteration, worker, 3000) {
				if ids[d.ID] {
					t.Fatalf("iteration %d worker %d: _id %v is not new", iteration, worker, d.ID)
				}
				ids[d.ID] = true
				if !flightIDs[d.FlightID] {
					t.Fatalf("flight_id %d of no seeded document", d.FlightID)
				}
			}
		}
	}
}

// The extremes of (iteration, worker, n) keep their places in an _id.
func TestObjectIDsKeepApart(t *testing.T) {
	seen := map[objectID]string{}
	note := func(name string, id objectID) {
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have one _id", name, other)
		}
		seen[id] = name
	}
	for _, j := range []int64{0, 1, 1 << 16, MaxSize - 1} {
		note(fmt.Sprint("seeded ", j), seededID(j))
	}
	for _, iteration := range []int{0, 1, 1 << 20} {
		for _, worker := range []int{0, 1, maxWorkers - 1} {
			for _, n := range []int64{0, 1, 1 << 40, maxOpsPerWorker * maxBatch} {
				note(fmt.Sprint("inserted ", iteration, worker, n), insertedID(iteration, worker, n))
			}
		}
	}
}

func TestCollections(t *testing.T) {
	list := newWorkload(t, nil).Collections()
	if len(list) != 1 || list[0].Database != "airline" || list[0].Name != "flights" {
		t.Fatalf("collections %+v", list)
	}
	var got []string
	for _, index := range list[0].Indexes {
		keys, err := bson.MarshalExtJSON(index.Keys, false, false)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, index.Name+" "+string(keys))
	}
	want := []string{
		`flight_id_1_equipment.plane_type_1 {"flight_id":1,"equipment.plane_type":1}`,
		`flight_id_1_seats_available_1 {"flight_id":1,"seats_available":1}`,
		`flight_id_1_duration_minutes_1_seats_available_1 {"flight_id":1,"duration_minutes":1,"seats_available":1}`,
		`equipment.plane_type_1 {"equipment.plane_type":1}`,
		`origin_1_destination_1_flight_date_-1 {"origin":1,"destination":1,"flight_date":-1}`,
		`status_1 {"status":1}`,
		`flight_date_1 {"flight_date":1}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("indexes\n%q, want\n%q", got, want)
	}
}
