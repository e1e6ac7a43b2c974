// Package workload is documented by its owner.
package workload
