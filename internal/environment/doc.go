// Package environment turns environment files into a checked Spec, and keeps
// the Inventory of what was made of it; Status is the form in which platforms
// say how that is now.
//
// In go variable files in Terraform's syntax (HCL or JSON), -var arguments
// and TF_VAR_ variables, combined in Terraform's order of precedence and
// converted by its rules against the variable blocks of terraform/gcp. Out
// comes either a Spec with every default applied and every host named, or
// Problems: all that is wrong, each with its place in the source.
//
// The package reads the files it is given and the folder of automatic ones.
// It starts nothing, connects to nothing and runs no Terraform.
package environment
