package gcp

import (
	"context"
	"time"
)

// SweepOptions say where to look.
type SweepOptions struct {
	// Project to look in; when empty, the one that Environ or the credentials
	// name.
	Project string
	// Environ has the form of os.Environ.
	Environ []string
	// Now is what the time to live is compared with.
	Now time.Time
	// All asks for environments that have not expired as well.
	All bool
}

// Expired is an environment in a project, past its time to live unless All
// was asked for.
type Expired struct {
	Environment string
	Project     string
	Owner       string
	// Created and Expires are zero when nothing says so: the environment has
	// no time to live, or nothing with labels is left of it.
	Created, Expires time.Time
	Resources        []Resource
}

// Expired reports whether its time was over at a point in time.
func (e Expired) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// Sweep finds environments past their time to live, in all regions, whoever
// made them. Remove of a Platform of that name removes them.
func Sweep(ctx context.Context, o SweepOptions) ([]Expired, error) {
	c, err := connect(ctx, environMap(o.Environ), o.Project)
	if err != nil {
		return nil, err
	}
	resources, err := c.list(ctx, "")
	if err != nil {
		return nil, err
	}
	var found []Expired
	names, of := environmentsOf(resources)
	for _, name := range names {
		e := Expired{Environment: name, Project: c.project, Resources: of[name]}
		for _, r := range e.Resources {
			created, expires, ok := expiry(r.Labels)
			if e.Owner == "" {
				e.Owner = r.Labels[labelOwner]
			}
			if e.Created.IsZero() || !created.IsZero() && created.Before(e.Created) {
				e.Created = created
			}
			// Labels differ only after an apply that failed halfway: the
			// longer life counts.
			if ok && expires.After(e.Expires) {
				e.Expires = expires
			}
		}
		if o.All || e.Expired(o.Now) {
			found = append(found, e)
		}
	}
	return found, nil
}
