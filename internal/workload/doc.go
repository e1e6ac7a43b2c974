// Package workload makes the documents and commands of a benchmark.
//
// What goes in is Settings; what comes out are documents as BSON bytes,
// commands one at a time, and the fingerprint of a sequence of commands. The
// package is pure: it reads no clock, opens no connection, keeps no state
// between commands and runs nothing. Sending commands and timing the replies
// is the business of others.
//
// # Determinism
//
// Seeded document j is a function of (seed, j), command i of a worker one of
// (settings, iteration, worker, i), and document k inside an insert one of
// (settings, iteration, worker, i, k). Everything random comes from a
// counter-based generator (see stream), everything is integer arithmetic, and
// the bytes are the same on every operating system, architecture, number of
// processors and Go version. Any command can be made alone, in any order.
// A sequence describes a freshly seeded collection: running it twice without
// seeding in between inserts the same _id values again.
//
// # The mix
//
// The mix is exact, not approximate: commands come in blocks (100 commands
// for the default mix), each holding every operation type exactly as often as
// its weight says, in an order drawn anew for every block. Because of that,
// the number of documents a worker has inserted and deleted before any
// command is known by arithmetic, and that is what lets commands reach
// documents that were inserted earlier without anything being remembered.
//
// # Numbers, keys and documents
//
// The seeded documents are numbered from 0. The numbers j with
// j mod workers = w are the share of worker w, and every command of w
// concerns only documents with a number of that share; so what a command
// finds, changes or deletes does not depend on how the workers interleave.
//
// A number names a flight: flight_id, airline, route, code, duration, plane
// and the number of passengers follow from it. A document is one occurrence
// of a flight. Seeding makes one document per number. A worker deletes the
// documents of its share in a shuffled order, and inserts new documents of
// the same flights in the same order. If a mix inserts as many documents as
// it deletes, as the default one does, the collection keeps its size (but
// for a few documents inside a block), every number has a document at any
// time, and every key of every command matches, however long a run is. A mix
// that inserts more lets the collection grow; one that deletes more lets it
// shrink until the documents have run out and most deletes match nothing.
//
// Finds and updates draw their numbers uniformly from the whole share;
// deletes and inserts pass through the whole share before they come back to
// a number. Keys within one $in list are distinct.
//
// updateMany and deleteMany address a number by the _id of the oldest
// document it has at that moment, which follows from the counts above. If
// several documents have one flight_id, updateOne and deleteOne reach the
// oldest whichever index the server chooses: such documents are equal in
// every indexed field after flight_id, except that seats_available of the
// oldest may be smaller, so all the indexes that start with flight_id hold
// the oldest first. (Where they are equal, an index is in the order of
// insertion.) So all that a server answers is determined, but for which of
// the matching documents a find with a limit returns.
//
// # Fingerprints
//
// The commands of every worker go into a Chain of SHA-256 states, with a
// checkpoint every CheckpointEvery commands. A fingerprint covers the first N
// commands of every worker: the SequenceID, N, and each worker's state after
// N commands. What is fingerprinted is the whole pass where every worker has
// sent it; else the longest checkpointed prefix that every worker has sent;
// and where some worker has not come to its first checkpoint, the longest
// prefix with an early state, of which there is one every EarlyEvery
// commands. PrefixFingerprint computes any of them again, from the settings
// alone.
package workload
