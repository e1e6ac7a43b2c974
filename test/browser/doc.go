// Package browser opens reports in Chromium: what they draw, how they react,
// and that they ask nothing of the network.
//
//	make test-browser
package browser
