package main

import (
	"fmt"
	"io"

	"golang.org/x/mod/semver"
)

// printTags prints how the modules are tagged: the root first, then the adapter, which requires that version of the
// root. Its replace line stays: it counts in the checkout only.
func printTags(out io.Writer, version string) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	_, err := fmt.Fprintf(out, `git tag -a %[1]s -m %[1]s
go -C informer/controllerruntime mod edit -require=github.com/larder-dev/larder@%[1]s
git commit -m "controllerruntime: requires %[1]s of the root" informer/controllerruntime/go.mod
git tag -a informer/controllerruntime/%[1]s -m informer/controllerruntime/%[1]s
git push origin HEAD %[1]s informer/controllerruntime/%[1]s
git checkout %[1]s && make release
`, version)
	return err
}
