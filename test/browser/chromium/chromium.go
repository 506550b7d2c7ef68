// Package chromium finds the browser of the tests, and installs it on Debian systems.
package chromium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Get returns the path of Chromium. If Chromium is missing and the user is root, Get installs Debian's package. Other
// users get an error that names the command to install it.
func Get(ctx context.Context) (string, error) {
	if path := find(); path != "" {
		return path, nil
	}
	missing := errors.New("the tests of the page need Chromium: apt-get install chromium")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", missing
	}
	fmt.Fprintln(os.Stderr, "installing Debian's package chromium, once")
	for _, args := range [][]string{
		{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"},
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w; apt-get %s: %w\n%s", missing, args[0], err, out)
		}
	}
	if path := find(); path != "" {
		return path, nil
	}
	return "", missing
}

func find() string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
