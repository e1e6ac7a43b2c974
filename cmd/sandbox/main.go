// Command sandbox compares MongoDB versions, builds and settings on
// identical machines under exactly the same commands.
package main

import (
	"os"

	"github.com/mongo-sandbox/sandbox/internal/cli"
	"github.com/mongo-sandbox/sandbox/internal/console"
)

// version is set by the linker (see the Makefile).
var version = "dev"

func main() {
	os.Exit(cli.Main(os.Args[1:], console.System(), version))
}
