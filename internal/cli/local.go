package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/local"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// embeddedNotice is shown wherever the embedded engine stands in.
const embeddedNotice = "the embedded engine stands in for MongoDB: its numbers say nothing about MongoDB"

// platform opens the local platform's state of an environment.
func (a *app) platform(name, mongodDir string, progress func(local.Event)) *local.Platform {
	return local.New(local.Options{
		Dir:             filepath.Join(a.stateRoot(), name),
		MongodDir:       mongodDir,
		EmbeddedCommand: []string{a.executable, "mongod"},
		Progress:        progress,
	})
}

// notUp explains that an environment does not exist.
func notUp(name string, err error) error {
	if errors.Is(err, local.ErrNoEnvironment) {
		return fail(exitUsage, fmt.Errorf("environment %s is not up", name), "run `sandbox up -var-file FILE` first")
	}
	return err
}

// engineOf sums up engines: one embedded deployment makes all embedded.
func engineOf[T any](deployments []T, engine func(T) string) string {
	for _, d := range deployments {
		if engine(d) != record.EngineMongod {
			return record.EngineEmbedded
		}
	}
	return record.EngineMongod
}

// deploymentProgress shows one line per deployment, from the first event on.
type deploymentProgress struct {
	progress    *console.Progress
	deployments []environment.Deployment

	mu      sync.Mutex
	tasks   map[string]*console.Task
	healthy map[string]int
}

func newDeploymentProgress(p *console.Progress, spec *environment.Spec) *deploymentProgress {
	return &deploymentProgress{progress: p, deployments: spec.Deployments, tasks: map[string]*console.Task{}, healthy: map[string]int{}}
}

func (d *deploymentProgress) event(e local.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	total := 0
	for _, deployment := range d.deployments {
		if d.tasks[deployment.Name] == nil {
			d.tasks[deployment.Name] = d.progress.Task(deployment.Name)
		}
		if deployment.Name == e.Deployment {
			total = len(deployment.Members)
		}
	}
	task := d.tasks[e.Deployment]
	if task == nil {
		return
	}
	switch {
	case e.Member != "" && e.Stage == local.Healthy:
		d.healthy[e.Deployment]++
	case e.Member == "" && e.Stage == local.Healthy:
		task.Done(fmt.Sprintf("%d of %d members healthy", total, total))
		return
	case e.Member == "" && e.Stage == local.Failed:
		task.Fail(e.Detail)
		return
	}
	detail := fmt.Sprintf("%d of %d members healthy, %s", d.healthy[e.Deployment], total, e.Stage)
	if e.Member != "" {
		detail += " " + e.Member
	}
	task.Update(console.State{Done: int64(d.healthy[e.Deployment]), Total: int64(total), Detail: detail})
}

// close ends what did not end by itself, as after an interrupt.
func (d *deploymentProgress) close() {
	for _, task := range d.tasks {
		task.Fail("not finished")
	}
	d.progress.Close()
}
