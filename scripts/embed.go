// Package scripts carries the scripts that make a bare machine a member of an
// environment inside the binary. It only holds the files; it runs nothing.
package scripts

import "embed"

// Provision holds provision/*.sh. lib.sh and packages.sh are sourced by the
// others; the first lines of each say what it does and what it needs.
//
//go:embed provision/*.sh
var Provision embed.FS
