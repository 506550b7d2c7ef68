package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

type program struct {
	name    string
	pkg     string
	version string
	ldflags string
}

// versions are the pinned versions of the programs, and a key that covers all inputs of their build.
type versions struct {
	kube string
	etcd string
	key  string
}

func readVersions() (versions, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return versions{}, fmt.Errorf("go env GOMOD: %w", err)
	}
	gomod := strings.TrimSpace(string(out))
	if filepath.Base(filepath.Dir(gomod)) != "cluster" {
		return versions{}, fmt.Errorf("run it in its own module: go run -C test/cluster ./cmd/build (go.mod in use: %q)",
			gomod)
	}
	text, err := os.ReadFile(gomod)
	if err != nil {
		return versions{}, err
	}
	v := versions{}
	if v.kube, err = required(text, "k8s.io/kubernetes"); err != nil {
		return v, err
	}
	if v.etcd, err = required(text, "go.etcd.io/etcd/server/v3"); err != nil {
		return v, err
	}
	main, err := os.ReadFile(filepath.Join(filepath.Dir(gomod), "cmd", "etcd", "main.go"))
	if err != nil {
		return v, err
	}
	// A change of any build input changes the key, and so the name of the cache entry.
	h := sha256.New()
	for _, part := range []string{string(text), string(main), runtime.Version(), fmt.Sprint(v.programs())} {
		fmt.Fprintf(h, "%d\n%s\n", len(part), part)
	}
	v.key = hex.EncodeToString(h.Sum(nil))[:8]
	return v, nil
}

func required(gomod []byte, module string) (string, error) {
	m := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(gomod)
	if m == nil {
		return "", fmt.Errorf("go.mod of test/cluster requires no %s", module)
	}
	return string(m[1]), nil
}

func (v versions) dirName() string {
	return fmt.Sprintf("%s-%s-%s-%s-%s", v.kube, v.etcd, runtime.GOOS, runtime.GOARCH, v.key)
}

func (v versions) programs() []program {
	const version = "-X k8s.io/component-base/version.gitVersion="
	return []program{
		{"etcd", "./cmd/etcd", v.etcd, "-s -w"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", v.kube, "-s -w " + version + v.kube},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", v.kube, "-s -w " + version + v.kube},
	}
}
