// Command larder mirrors Kubernetes resources into a file and reads it.
package main

import (
	"os"

	"github.com/larder-dev/larder/internal/cli"
)

func main() { os.Exit(cli.Main()) }
