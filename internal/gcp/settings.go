package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// settings are what must stay the same from one run to the next, kept as
// gcp.json in the environment's folder.
type settings struct {
	Project string `json:"project"`
	Region  string `json:"region"`
	// Created is when the environment was made first. Empty, it is not there.
	Created string `json:"created,omitempty"`
	// Owner and TTL are its labels of these names.
	Owner string `json:"owner,omitempty"`
	TTL   string `json:"ttl,omitempty"`
	// Zones is the order they are used in: with another one Terraform would
	// move machines.
	Zones []string `json:"zones,omitempty"`
	// Files are those of the configuration, in the work directory.
	Files []string `json:"files,omitempty"`
}

// settingsName is their file in the environment's folder.
const settingsName = "gcp.json"

func (p *Platform) settingsFile() string { return filepath.Join(p.o.Dir, settingsName) }

func (p *Platform) readSettings() (*settings, error) {
	s := &settings{}
	data, err := os.ReadFile(p.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.settingsFile(), err)
	}
	return s, nil
}

func (p *Platform) writeSettings(s *settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", p.settingsFile(), err)
	}
	if err := secret.WriteFile(p.settingsFile(), append(data, '\n')); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// Labels that everything has which can have labels.
const (
	labelManagedBy   = "managed-by"
	managedBy        = "sandbox"
	labelEnvironment = "environment"
	labelOwner       = "owner"
	labelCreated     = "created"
	labelTTL         = "ttl"
)

// createdLayout is a point in time as a label, always UTC.
const createdLayout = "20060102-150405"

// descriptionOf is what everything is described as that can be described.
func descriptionOf(environment string) string { return "Environment " + environment + " of sandbox" }

var descriptionPattern = regexp.MustCompile(`^Environment ([a-z0-9][a-z0-9-]{0,30}) of sandbox$`)

var notInLabel = regexp.MustCompile(`[^a-z0-9_-]+`)

// labelText makes a text fit for a label.
func labelText(text string) string {
	text = strings.Trim(notInLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	return text[:min(len(text), 63)]
}

// ttlText is a duration as a label, in hours or, when it is not whole, in
// minutes.
func ttlText(ttl time.Duration) string {
	switch {
	case ttl <= 0:
		return ""
	case ttl%time.Hour == 0:
		return fmt.Sprintf("%dh", ttl/time.Hour)
	}
	return fmt.Sprintf("%dm", (ttl+time.Minute-1)/time.Minute)
}
