package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mongo-sandbox/sandbox/internal/bench"
)

// busyHint is what can be done about a run that is under way elsewhere.
const busyHint = "`sandbox bench --resume` in the directory where it was started follows it to its end; an interrupt of that stops it"

// refuseBusy refuses to work on the machines of an environment while a run is
// under way on its load host: the cell would be measured with it, and nobody
// would see that. A load host that does not answer may be what is to be
// repaired; that it was not asked is said, and returned.
func (a *app) refuseBusy(ctx context.Context, name string, dial dialer) (asked bool, err error) {
	inventory, err := a.cloud(name, cloudOptions{}, 0, "", nil).Inventory()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nor is there a load host
	}
	if err != nil {
		return false, err
	}
	if dial == nil {
		dial = a.dial(inventory)
	}
	host, err := a.remoteBench(inventory, dial)
	if err != nil {
		return false, nil // it has none
	}
	err = bench.UnderWay(ctx, host)
	var busy *bench.BusyError
	switch {
	case errors.As(err, &busy):
		return true, fail(exitUsage, err, busyHint)
	case ctx.Err() != nil:
		return false, fmt.Errorf("up was interrupted: %w", ctx.Err())
	case err != nil:
		a.console.Notef("warning: not known whether a run is under way, which this would disturb: the load host cannot be asked: %v", err)
		return false, nil
	}
	return true, nil
}
