package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is the root of the checkout, relative to the directory in which make runs the command.
const root = "../.."

// maxProgram is the maximum size of the program in bytes, on any platform. Of its 49 MiB, 3 are minio-go, oras-go and
// minisign.
const maxProgram = 52 << 20

// buildProgram builds larder for a platform into dir, and returns the file name. go build takes the version from git.
func buildProgram(dir, platform string) (string, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("%q is no platform such as linux/amd64", platform)
	}
	name := "larder-" + goos + "-" + goarch
	if goos == "windows" {
		name += ".exe"
	}
	out, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "-C", root, "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", out,
		"./cmd/larder")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOARM=7", "GOAMD64=v1", "GOFLAGS=",
		"GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build for %s: %w", platform, err)
	}
	info, err := os.Stat(out)
	if err != nil {
		return "", err
	}
	if info.Size() > maxProgram {
		return "", fmt.Errorf("larder for %s has %d bytes, and at most %d are allowed: see what it has come to link",
			platform, info.Size(), maxProgram)
	}
	return name, nil
}
