package gcp

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// endOrphans ends the provider's processes that a killed Terraform left in
// the work directory: they wait for a parent that is gone. One with a living
// Terraform is left alone, and Terraform's lock then keeps us out.
func (p *Platform) endOrphans(ctx context.Context) {
	dir, err := filepath.EvalSymlinks(p.workDir())
	if err != nil {
		return
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return // then they stay: a nuisance, no more
	}
	for _, candidate := range all {
		if !isOrphan(ctx, candidate, dir) {
			continue
		}
		_ = candidate.TerminateWithContext(ctx)
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if running, err := candidate.IsRunningWithContext(ctx); err != nil || !running {
				break
			}
		}
		_ = candidate.KillWithContext(ctx)
	}
}

// isOrphan reports whether a process is a provider that was started in the
// folder and whose parent has died.
func isOrphan(ctx context.Context, candidate *process.Process, dir string) bool {
	if at, err := candidate.CwdWithContext(ctx); err != nil || at != dir {
		return false
	}
	name, err := candidate.ExeWithContext(ctx)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "terraform-provider-") {
		return false
	}
	parent, err := candidate.ParentWithContext(ctx)
	if err != nil {
		return true
	}
	at, err := parent.CwdWithContext(ctx)
	return err != nil || at != dir
}
