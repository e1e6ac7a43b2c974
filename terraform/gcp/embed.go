// Package gcpconfig carries the Terraform configuration of the gcp platform
// inside the binary. Its variables.tf is also the one schema of environment
// files on every platform. The package only holds the files; it runs nothing.
package gcpconfig

import "embed"

// Files holds the configuration as Terraform reads it: every .tf file of
// this folder, at the top of the file system.
//
//go:embed *.tf
var Files embed.FS

// VariablesFile is the name in Files of the variable declarations.
const VariablesFile = "variables.tf"
