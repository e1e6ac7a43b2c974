// Command mongod is the sandbox embedded server in the shape of a mongod
// executable. Test suites install it where a package would put the real one.
//
// Which version it reports comes from the environment variable
// SANDBOX_STANDIN_VERSION or a file mongod.version beside the executable,
// else it is its own. Whatever it reports, its first lines, hello and
// buildInfo say that it is not a MongoDB build.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/embedded"
)

func main() {
	os.Exit(embedded.MainAs(context.Background(), version(), os.Args[1:], os.Stdout, os.Stderr))
}

func version() string {
	if v := os.Getenv("SANDBOX_STANDIN_VERSION"); v != "" {
		return v
	}
	if self, err := os.Executable(); err == nil {
		if data, err := os.ReadFile(filepath.Join(filepath.Dir(self), "mongod.version")); err == nil {
			if v := strings.TrimSpace(string(data)); v != "" {
				return v
			}
		}
	}
	return embedded.Version
}
