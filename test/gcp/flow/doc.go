// Package flow runs the sandbox command from end to end, as a user does, on a
// cloud that is stood in for: OpenTofu and the google provider as they are,
// an API that keeps resources in memory, machines that are real systemd, apt
// and dnf in namespaces, and the vendors' package repositories under their own
// host names.
//
//	make e2e
//
// It checks what a user sees, what the API is left with, and that no secret
// shows anywhere.
package flow
