// Package bench decides which cells are run, in what order and where, and
// sees to it that nothing that was measured is lost.
//
// In go settings, sizes and targets; out comes a run record with a finished
// cell for every target, size and iteration, and progress events on the way.
// How a cell is prepared and measured is a Runner's business: InProcess does
// it from this process, and another may do it from a load host.
//
// What is done is read from the run record alone: a cell is finished when a
// valid attempt is, or when it was invalid as often as it may be. A run can
// therefore be ended at any moment, by kill -9 as well, and resumed.
//
// The package does not compute statistics, does not print, and starts no
// servers.
package bench
