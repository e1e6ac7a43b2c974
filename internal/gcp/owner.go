package gcp

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// owner is the label of whom the environment belongs to.
func (p *Platform) owner(s *settings) string {
	switch {
	case p.o.Owner != "":
		return labelText(p.o.Owner)
	case s.Owner != "":
		return s.Owner
	}
	return labelText(p.o.User)
}

// ttl is the label of how long the environment is meant to live.
func (p *Platform) ttl(s *settings) string {
	if p.o.TTL != 0 {
		return ttlText(p.o.TTL)
	}
	return s.TTL
}

// checkTTL refuses a time to live that would be over at once.
func (p *Platform) checkTTL(s *settings, result *Preflight) {
	created, expires, ok := expiry(map[string]string{labelCreated: s.Created, labelTTL: p.ttl(s)})
	if p.o.TTL > 0 && ok && !p.o.Now().Before(expires) {
		age := p.o.Now().Sub(created).Truncate(time.Minute)
		result.problem(fmt.Sprintf("the environment was made %s ago, and %s of life would be over at once", age, p.ttl(s)), "Give a longer --ttl: it counts from when the environment was made.")
	}
}

// Owner is who a resource belongs to by its label, or "" when it has none.
func (r Resource) Owner() string { return r.Labels[labelOwner] }

// ownersBut are those that resources belong to, other than one of them.
func ownersBut(owner string, resources []Resource) []string {
	var others []string
	for _, r := range resources {
		if r.Owner() != "" && r.Owner() != owner {
			others = append(others, r.Owner())
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// foreign is the problem of an environment that is somebody else's, nil if it
// is none: an environment in a project is its name alone.
func foreign(environment, project, owner string, existing []Resource) *Problem {
	others := ownersBut(owner, existing)
	if len(others) == 0 {
		return nil
	}
	return &Problem{
		Summary: fmt.Sprintf("the project %s has an environment %s of %s", project, environment, strings.Join(others, " and ")),
		Fix:     fmt.Sprintf("Name yours with --env. Should that one be yours as well, say so with --owner %s.", others[0]),
	}
}

// Split tells what belongs to the environment's owner from what belongs to
// somebody else, whose names it returns. What bears no owner goes with the
// others as soon as there are any: it is not known to be ours.
func (p *Platform) Split(resources []Resource) (ours, theirs []Resource, others []string, err error) {
	s, err := p.readSettings()
	if err != nil && p.o.Project == "" {
		return nil, nil, nil, err
	}
	if err != nil {
		s = &settings{}
	}
	owner := p.owner(s)
	others = ownersBut(owner, resources)
	if len(others) == 0 {
		return resources, nil, nil, nil
	}
	for _, r := range resources {
		if r.Owner() == owner {
			ours = append(ours, r)
		} else {
			theirs = append(theirs, r)
		}
	}
	return ours, theirs, others, nil
}
