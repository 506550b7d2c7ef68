package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// platform is what packages are checked for.
type platform struct{ goos, goarch string }

func (p platform) String() string { return p.goos + "/" + p.goarch }

// parsePlatforms reads GOOS/GOARCH,….
func parsePlatforms(text string) (platforms []platform, err error) {
	for name := range strings.SplitSeq(text, ",") {
		goos, goarch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form GOOS/GOARCH", name)
		}
		platforms = append(platforms, platform{goos, goarch})
	}
	return platforms, nil
}

// listed is a package as go list describes it for one platform. A package with tests in it is there a second time, as "path [path.test]".
type listed struct {
	Name, ImportPath, Dir string
	GoFiles               []string
	Imports               []string          // as ImportPath of other packages
	ImportMap             map[string]string // from what the source says to ImportPath, where they differ
	DepOnly               bool              // imported only, not of the module
	Module                *struct{ GoVersion string }
}

// path is what the package's source calls it.
func (l listed) path() string {
	path, _, _ := strings.Cut(l.ImportPath, " ")
	return path
}

// goVersion is the language version of the package's module, "go1.26" for example; empty for the standard library.
func (l listed) goVersion() string {
	if l.Module == nil || l.Module.GoVersion == "" {
		return ""
	}
	return "go" + l.Module.GoVersion
}

// list returns the packages of the module in dir, their tests, and what they import, a package after those that it imports.
func list(ctx context.Context, dir string, on platform) (packages []listed, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-json=Name,ImportPath,Dir,GoFiles,Imports,ImportMap,DepOnly,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+on.goos, "GOARCH="+on.goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) {
				return packages, nil
			}
			return nil, err
		}
		// The main packages of tests are generated.
		if l.Name != "main" || !strings.HasSuffix(l.ImportPath, ".test") {
			packages = append(packages, l)
		}
	}
}
