// Package record keeps what a run measured: it appends to the run record
// while the run goes on and reads it back, years later if need be.
//
// In go the values of this package; out come files in a folder that explains
// itself, and the values again:
//
//	runs/<run id>/
//	  run.json                 Run: what was asked and of whom (replaced atomically)
//	  journal.ndjson           Event: what happened, in order; every line is synced
//	  cells/<name>/            one attempt at one cell
//	    id.json                which cell and attempt this is; there from the start
//	    intervals.ndjson       Interval: one line a second
//	    windows.ndjson         Window: one line per window, with histograms
//	    latency.hlog           HdrHistogram interval log, written by the load generator
//	    members.ndjson         Sample: readings of the members
//	    outcomes.csv.zst       what the server answered to every command, if asked for
//	    checkpoints.json       Checkpoints
//	    explain.json           []Explain
//	    partial.json           Cell of an attempt that was given up
//	    cell.json              Cell: written last
//
// There is one truth about what is finished: an attempt is finished if and
// only if its cell.json exists. That file is written after everything else
// of the attempt is on the disk, and appears in one step. The journal is the
// log of how it came to that, and is brought up to date from the folders
// when a run is resumed. A line of an .ndjson file counts once its newline is
// there: a torn last line, the trace of a sudden end, is passed over by
// readers and cut off before the journal is appended to.
//
// Damage costs no more than what is damaged: readers go on after a line that
// cannot be used, and say of every other file which one it is and why.
//
// Nothing is buffered: what was handed in survives the end of the process.
//
// A record holds no secret: text that may carry a password is redacted on
// its way in, and a document that still holds one is refused. Readers take a
// record for untrusted input: sizes are limited, links that lead out of the
// record are not followed, newer schema versions are refused by name.
//
// The package reads no clock, knows no database and computes no statistics
// beyond the summary of a histogram.
package record
