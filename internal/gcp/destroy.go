package gcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-exec/tfexec"
)

// Removed is how much Destroy removed, by kind.
type Removed map[string]int

// Total is how much that is altogether.
func (r Removed) Total() int {
	n := 0
	for _, count := range r {
		n += count
	}
	return n
}

// Destroy removes what Terraform knows of the environment. It needs neither
// the variable files nor the Spec, and without any state it does nothing:
// Leftovers finds what is there all the same. It can be repeated until it
// succeeds. When ctx ends, Terraform is interrupted as by Apply.
func (p *Platform) Destroy(ctx context.Context) (Removed, error) {
	if _, err := os.Stat(filepath.Join(p.workDir(), appliedFile)); errors.Is(err, fs.ErrNotExist) {
		return Removed{}, nil
	}
	s, err := p.readSettings()
	if err != nil {
		return nil, err
	}
	t, err := p.terraform(s.Project, s.Region)
	if err != nil {
		return nil, err
	}
	p.endOrphans(ctx)
	_ = os.Remove(filepath.Join(p.workDir(), adoptFile)) // what it names is going
	if err := p.initForDestroy(ctx, t); err != nil {
		return nil, err
	}
	removed := Removed{}
	log := &jsonLog{stage: StageDestroy, report: func(e Event) {
		if e.Phase == Done && e.Action == Delete {
			removed[e.Kind]++
		}
		p.report(e)
	}}
	if state, err := t.tf.Show(ctx); err == nil {
		names := map[string]string{}
		if state.Values != nil && state.Values.RootModule != nil {
			for _, r := range state.Values.RootModule.Resources {
				if kindOf(r.Type) != r.Type {
					names[r.Address] = textOf(r.AttributeValues["name"])
				}
			}
		}
		log.total, log.nameOf = len(names), nameIn(names)
	}
	p.report(Event{Stage: StageDestroy, Phase: Started, Total: log.total})
	err = t.tf.DestroyJSON(ctx, log, tfexec.VarFile(appliedFile), tfexec.Parallelism(parallelism))
	switch {
	case err == nil:
	case canceled(ctx, err):
		return removed, &InterruptedError{Stage: StageDestroy, Unfinished: log.unfinished()}
	default:
		return removed, p.explainLock(ctx, t, log.failure("destroy", err, ""))
	}
	p.report(Event{Stage: StageDestroy, Phase: Done, Done: log.done, Total: log.total})
	// The next environment of this name is a new one. Project and owner are
	// kept for Leftovers.
	s.Created, s.Zones, s.TTL = "", nil, ""
	return removed, errors.Join(p.writeSettings(s), removeIfThere(p.inventoryFile()), removeIfThere(filepath.Join(p.workDir(), appliedFile)))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// initForDestroy initializes the work directory unless that is done.
func (p *Platform) initForDestroy(ctx context.Context, t *terraform) error {
	var stderr bytes.Buffer
	t.tf.SetStderr(&stderr)
	defer t.tf.SetStderr(nil)
	err := t.tf.Init(ctx, tfexec.Upgrade(false))
	switch {
	case err == nil:
		return nil
	case canceled(ctx, err):
		return &InterruptedError{Stage: StageInit}
	}
	return &TerraformError{Command: "init", Diagnostics: textDiagnostics(stderr.String()), Err: err, Fix: initFix(stderr.String())}
}

// Leftovers asks the API for everything that has the environment's labels or
// description, whatever Terraform knows of it. It works without the
// environment's folder, when the project is known from the options or the
// credentials.
func (p *Platform) Leftovers(ctx context.Context) ([]Resource, error) {
	s, err := p.readSettings()
	if err != nil && p.o.Project == "" {
		return nil, err
	}
	if err != nil {
		s = &settings{} // the project is known without them
	}
	c, err := p.connect(ctx, s.Project)
	if err != nil {
		return nil, err
	}
	return c.list(ctx, p.o.Environment)
}

// Remove removes resources, in an order that works, those of a kind at once.
// It goes on after an error and can be repeated.
func (p *Platform) Remove(ctx context.Context, resources []Resource) error {
	if len(resources) == 0 {
		return nil
	}
	clouds, err := p.clouds(ctx, resources)
	if err != nil {
		return err
	}
	done := 0
	for _, kind := range removalOrder() {
		var of []Resource
		for _, r := range resources {
			if r.Kind == kind {
				of = append(of, r)
			}
		}
		if err := p.removeKind(ctx, clouds, of, &done, len(resources)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Platform) removeKind(ctx context.Context, clouds map[string]*cloud, resources []Resource, done *int, total int) error {
	var (
		mu       sync.Mutex
		group    sync.WaitGroup
		failures []error
	)
	slots := make(chan struct{}, 10) // the API limits changes per second
	for _, r := range resources {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			mu.Lock()
			p.report(Event{Stage: StageRemove, Kind: r.Kind, Name: r.Name, Action: Delete, Phase: Started, Done: *done, Total: total})
			mu.Unlock()
			err := clouds[r.Project].remove(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			phase := Failed
			if err == nil {
				phase = Done
				*done++
			} else {
				failures = append(failures, err)
			}
			p.report(Event{Stage: StageRemove, Kind: r.Kind, Name: r.Name, Action: Delete, Phase: phase, Done: *done, Total: total})
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return &InterruptedError{Stage: StageRemove, Unfinished: namesOf(resources)}
	}
	return errors.Join(failures...)
}

// clouds connects once to each project that has some of the resources.
func (p *Platform) clouds(ctx context.Context, resources []Resource) (map[string]*cloud, error) {
	of := map[string]*cloud{}
	for _, r := range resources {
		if of[r.Project] != nil {
			continue
		}
		c, err := p.connect(ctx, r.Project)
		if err != nil {
			return nil, err
		}
		of[r.Project] = c
	}
	return of, nil
}

func namesOf(resources []Resource) []string {
	var names []string
	for _, r := range resources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}
