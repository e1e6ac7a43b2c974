//go:build race

package record

const raceDetector = true
