// Package record is documented by its owner.
package record
