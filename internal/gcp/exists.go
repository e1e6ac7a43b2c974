package gcp

import (
	"os"
	"path/filepath"
)

// Exists reports whether an environment's folder is one of this platform,
// complete or not.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, settingsName))
	return err == nil
}
