package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

const (
	rootPath    = "github.com/larder-dev/larder"
	adapterPath = "informer/controllerruntime"
)

// tagModules tags both modules of the checkout in dir: the root, then the adapter. The adapter's tag is on a new commit
// whose go.mod requires the tagged root. The replace line of that go.mod stays, because only the checkout uses it.
//
// Nothing is pushed: out gets the command for the push. A dirty checkout or an existing tag is an error before any
// change.
func tagModules(dir, version string, out io.Writer) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	if changed, err := git(dir, "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, fmt.Errorf("the checkout %s has changes: commit them, and then tag\n%s", dir, changed))
	}
	adapter := adapterPath + "/" + version
	if there, err := git(dir, "tag", "--list", version, adapter); err != nil || there != "" {
		return errors.Join(err, fmt.Errorf("there is a tag already: %s", strings.Fields(there)))
	}
	mod := filepath.Join(adapterPath, "go.mod")
	edit := exec.Command("go", "mod", "edit", "-require="+rootPath+"@"+version, mod)
	edit.Dir = dir
	if _, err := git(dir, "tag", "-a", version, "-m", version); err != nil {
		return err
	}
	if output, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", edit, err, output)
	}
	if _, err := git(dir, "commit", "-m", "controllerruntime: requires "+version+" of the root", mod); err != nil {
		return err
	}
	if _, err := git(dir, "tag", "-a", adapter, "-m", adapter); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Tagged %s and %s. To publish them: git push origin HEAD %[1]s %[2]s\n", version, adapter)
	return err
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, failure.String())
	}
	return string(out), nil
}
