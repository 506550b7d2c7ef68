package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/config"
)

func TestSystemdUnit(t *testing.T) {
	dir := filepath.Join("..", "..", "deploy", "systemd")
	c, err := config.Load(filepath.Join(dir, "sync.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "larder-sync.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := parseUnit(t, string(data))
	for key, want := range map[string]string{
		"Service.Type": "notify", "Service.Restart": "on-failure", "Service.DynamicUser": "yes",
		"Service.ProtectSystem":   "strict",
		"Service.NoNewPrivileges": "yes", "Install.WantedBy": "multi-user.target",
		// A refused system call must fail instead of killing the process: the store tolerates failed calls such as chown.
		"Service.SystemCallErrorNumber": "EPERM",
		"Service.ExecStart":             "/usr/local/bin/larder sync --config /etc/larder/sync.yaml",
	} {
		if unit[key] != want {
			t.Errorf("%s is %q, want %q", key, unit[key], want)
		}
	}
	if state := filepath.Join("/var/lib", unit["Service.StateDirectory"]); filepath.Dir(c.Store) != state {
		t.Errorf("the store is at %s, and the service may write to %s", c.Store, state)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit was only parsed")
		return
	}
	copied := filepath.Join(t.TempDir(), "larder-sync.service")
	self, err := os.Executable() // the test binary stands in for the program larder, which may not be installed
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(data), "/usr/local/bin/larder", self)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "larder-sync") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func parseUnit(t *testing.T, text string) map[string]string {
	t.Helper()
	section, all := "", map[string]string{}
	header := regexp.MustCompile(`^\[(Unit|Service|Install)\]$`)
	for n, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case header.MatchString(line):
			section = strings.Trim(line, "[]")
		case !ok || section == "":
			t.Errorf("line %d is no setting: %s", n+1, line)
		default:
			all[section+"."+name] = value
		}
	}
	return all
}
