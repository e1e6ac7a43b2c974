// Package environment turns variable files into a checked Spec and its
// topology.
package environment
