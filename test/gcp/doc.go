// Package gcp tests terraform/gcp from end to end: OpenTofu and the whole
// google provider, as they are, against a stand-in for Google's API.
//
//	make e2e-terraform
package gcp
