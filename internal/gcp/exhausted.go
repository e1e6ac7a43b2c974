package gcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// exhaustedFor is for how long a zone that had no machine to give is taken
// last.
const exhaustedFor = 24 * time.Hour

// exhaustedFile keeps those zones, with the time. It is beside the folders of
// the environments: one that is brought up again after down, and any other,
// begins elsewhere.
func (p *Platform) exhaustedFile() string {
	return filepath.Join(filepath.Dir(p.o.Dir), "exhausted-zones.json")
}

// readExhausted returns what still counts. The order of zones is worth no
// error: without a file that can be read there are none.
func (p *Platform) readExhausted() map[string]time.Time {
	zones := map[string]time.Time{}
	data, err := os.ReadFile(p.exhaustedFile())
	if err != nil || json.Unmarshal(data, &zones) != nil {
		return map[string]time.Time{}
	}
	for zone, at := range zones {
		if p.o.Now().Sub(at) >= exhaustedFor {
			delete(zones, zone)
		}
	}
	return zones
}

// exhausted is 1 for zones that had no machines lately.
func (p *Platform) exhausted() map[string]int {
	ranks := map[string]int{}
	for zone := range p.readExhausted() {
		ranks[zone] = 1
	}
	return ranks
}

var zoneInText = regexp.MustCompile(`projects/[^/']+/zones/([a-z0-9-]+)`)

// noteExhausted remembers the zones that an error names as being without
// machines.
func (p *Platform) noteExhausted(text string) {
	zones := p.readExhausted()
	for _, match := range zoneInText.FindAllStringSubmatch(text, -1) {
		zones[match[1]] = p.o.Now().UTC()
	}
	if data, err := json.MarshalIndent(zones, "", "  "); err == nil {
		_ = secret.WriteFile(p.exhaustedFile(), append(data, '\n'))
	}
}
