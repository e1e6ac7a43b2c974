//go:build linux && e2e

package machines

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

func TestBuild(t *testing.T) { t.Log(os.Getenv(imageVariable), os.Getenv(labVariable)) }
