package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

const (
	// pollEvery is how often the collector reads the rings.
	pollEvery = 50 * time.Millisecond
	// progressEvery is how often Progress is called.
	progressEvery = 500 * time.Millisecond
)

// phase is the warm-up or the measured time of a run.
type phase struct {
	options Options
	limits  limits
	warmup  bool

	workers   []*worker
	failures  failures
	collector *collector

	base     time.Time // when all workers started
	stopping chan struct{}
	stopped  atomic.Bool

	interrupted bool // the context was cancelled before the end
	cutOff      bool // commands were cancelled in overtime
	started     usage
	finished    usage
	elapsed     time.Duration // until the last worker had ended
}

func newPhase(o Options, l limits) *phase {
	p := &phase{options: o, limits: l, stopping: make(chan struct{})}
	p.collector = newCollector(p)
	return p
}

// run is the measured time from beginning to end. It returns ErrTargetDown
// and errors of the sink.
func (p *phase) run(ctx context.Context) error {
	if ctx.Err() != nil {
		p.interrupted = true
		return nil
	}
	workers := p.options.Workload.Settings().Workers
	for id := range workers {
		p.workers = append(p.workers, newWorker(p, id, newRing(workers)))
	}
	// The commands must outlive ctx by the grace that ends them orderly.
	commands, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var ready, running sync.WaitGroup
	start := make(chan struct{})
	ready.Add(workers)
	for _, w := range p.workers {
		running.Go(func() {
			// One context each: what the driver waits on is not shared.
			own, cancel := context.WithCancel(commands)
			defer cancel()
			ready.Done()
			<-start
			w.run(own)
		})
	}
	ready.Wait()
	p.started = readUsage()
	p.base = time.Now()
	close(start)
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	err := p.watch(ctx, cancel, done)
	p.elapsed = time.Since(p.base)
	p.finished = readUsage()
	return errors.Join(err, p.collector.finish())
}

// watch collects until the workers are done, and sees to it that they will
// be.
func (p *phase) watch(ctx context.Context, cancel context.CancelFunc, done <-chan struct{}) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var overtime, grace <-chan time.Time
	if p.options.Duration > 0 {
		timer := time.NewTimer(p.options.Duration + p.limits.overtime)
		defer timer.Stop()
		overtime = timer.C
	}
	interrupt := ctx.Done()
	var failed error
	stop := func(err error) {
		if failed == nil {
			failed = err
		}
		p.stop()
		if grace == nil {
			grace = time.After(p.limits.grace)
		}
	}
	for {
		select {
		case <-done:
			return failed
		case <-tick.C:
			if err := p.collector.poll(time.Since(p.base)); err != nil {
				stop(err)
			}
		case <-interrupt:
			interrupt = nil
			p.interrupted = true
			stop(nil)
		case <-grace:
			cancel()
		case <-overtime:
			p.cutOff = true
			p.stop()
			cancel()
		}
	}
}

// stop lets every worker finish the command it is at.
func (p *phase) stop() {
	if !p.stopped.Swap(true) {
		close(p.stopping)
	}
}

func newWorker(p *phase, id int, r *ring) *worker {
	return &worker{
		id: id, phase: p, ring: r,
		gen:   p.options.Workload.Generator(p.options.Iteration, id),
		chain: workload.NewChain(),
	}
}

func targetDown(silence time.Duration, last string) error {
	return fmt.Errorf("%w: no command succeeded for %s; last error: %s", ErrTargetDown, silence.Round(time.Second), last)
}
