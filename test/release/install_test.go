package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	rootModule = rootPath
	version    = "v0.1.0"
)

// program imports both modules, as a user's program would.
const program = `package main

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/controllerruntime"
	"github.com/larder-dev/larder/store"
)

func main() {
	err := informer.Run(context.Background(), "larder.db", store.Options{}, func(ctx context.Context, s *informer.Session) error {
		fmt.Println(s.Store.Path() != "", controllerruntime.NewCache(informer.Options{Store: s.Store}) != nil)
		return nil
	})
	fmt.Println(err)
}
`

// TestInstall checks that a tag can be used from outside the repository: go install of the command, and a program that
// imports both modules. A local module proxy serves the tag.
func TestInstall(t *testing.T) {
	proxy := filepath.Join(t.TempDir(), "proxy")
	publish(t, proxy, rootModule, root, nil)
	publish(t, proxy, rootModule+"/informer/controllerruntime", filepath.Join(root, "informer", "controllerruntime"),
		func(mod string) {
			runGo(t, filepath.Dir(mod), nil, "mod", "edit", "-require="+rootModule+"@"+version, mod)
		})

	cache := strings.TrimSpace(runGo(t, ".", nil, "env", "GOMODCACHE"))
	bin := t.TempDir()
	env := []string{
		// The checkout's dependencies are in the local cache, which go asks before the network.
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," +
			strings.TrimSpace(runGo(t, ".", nil, "env", "GOPROXY")),
		"GOSUMDB=off", "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath",
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "mod"),
		"GOBIN=" + bin, "CGO_ENABLED=0",
	}
	runGo(t, t.TempDir(), env, "install", rootModule+"/cmd/larder@"+version)
	out, err := exec.Command(filepath.Join(bin, "larder"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "larder "+version+" ") {
		t.Errorf("the installed command says %q, %v", out, err)
	}

	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), []byte(program))
	write(t, filepath.Join(dir, "go.mod"), []byte("module example.com/user\n\ngo 1.26.0\n"))
	runGo(t, dir, env, "get", rootModule+"@"+version, rootModule+"/informer/controllerruntime@"+version)
	if got := runGo(t, dir, env, "run", "."); got != "true true\n<nil>\n" {
		t.Errorf("the program says %q", got)
	}
}

// publish adds a module to a local module proxy, with the files of the checkout in dir. edit may change the copy of
// go.mod.
func publish(t *testing.T, proxy, path, dir string, edit func(mod string)) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod := filepath.Join(at, version+".mod")
	write(t, mod, data)
	if edit != nil {
		edit(mod)
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, version+".info"), info)
	write(t, filepath.Join(at, "list"), []byte(version+"\n"))

	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	listed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []zip.File
	for name := range bytes.SplitSeq(bytes.TrimRight(listed, "\x00"), []byte{0}) {
		from := filepath.Join(dir, string(name))
		if string(name) == "go.mod" {
			from = mod
		}
		if info, err := os.Lstat(from); err == nil && info.Mode().IsRegular() {
			files = append(files, file{string(name), from})
		}
	}
	var out bytes.Buffer
	if err := zip.Create(&out, module.Version{Path: path, Version: version}, files); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, version+".zip"), out.Bytes())
}
