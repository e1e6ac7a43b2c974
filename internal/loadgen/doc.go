// Package loadgen puts a workload on a deployment and measures the answers.
//
// In go a workload, an iteration, a client and how long or how fast; out
// come the load part of a cell: counts, latencies, errors, fingerprints and
// what the load generator itself used. Seed fills the collections, Run sends
// the commands.
//
// How it measures:
//
//   - Every worker is a goroutine that sends its own commands one after the
//     other. All start together. Service time is the driver call alone, by
//     the monotonic clock: making a command and hashing it happen outside.
//   - A worker writes each result into a ring of its own; one collector
//     reads the rings, so that the path of a command has no lock, no map and
//     no allocation beside the driver's. A command counts in the second in
//     which it ended, so a stall shows where it ended.
//   - Failed commands are counted by operation and error and are in no
//     throughput and no latency. They, those of them that ran out of time,
//     and retries are counted by second and by window, too.
//   - With a rate (open loop), command n is due n/rate after the start. Its
//     response time counts from there, so a stall is charged to every
//     command that had to wait for it, not to the one that met it
//     ("coordinated omission"). The wait for the due time is only as exact
//     as the system's timers, about a millisecond on Linux, and part of the
//     response time. Windows have a distribution of response times beside
//     that of service times.
//   - Throughput is successful commands per second of real time, from the
//     start to the end of the last command.
//
// The warm-up sends the read commands of iteration 0, whose numbers no
// measured iteration has, and drops the others: it changes no data, so
// however far it comes, the measured commands meet the data they would have
// met without it. It fills caches by reading only.
//
// The package does not decide what to run, does not wait for secondaries,
// takes no samples of servers and writes no files: what it measures goes to
// a Sink as it comes.
package loadgen
