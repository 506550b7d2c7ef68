// Command chromium prints the path of the tests' browser, and installs it if it is missing.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/larder-dev/larder/test/browser/chromium"
)

func main() {
	path, err := chromium.Get(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
