// Package report turns a run record into a page. In goes the folder of a
// record, or the same values from memory; out comes one Comparison, computed
// once, and its renderings: text, Markdown, HTML, JSON and CSV. Every
// rendering says the same, because none of them computes anything.
//
// The page answers, in this order: is the comparison fair; what differs, by
// how much, and is that more than noise; where; why; how to repeat it.
//
// The package reads nothing but the record's files, so any run can be
// reported again years later, and gives the same bytes for the same record.
// It measures nothing and judges no thresholds.
package report
