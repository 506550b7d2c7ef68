package fileservers

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestTakenPort checks that a server whose port is taken is started on another port. The test is internal, because only
// the command hook can take the port before the server does.
func TestTakenPort(t *testing.T) {
	config := filepath.Join(t.TempDir(), "registry.yaml")
	if err := os.WriteFile(config, []byte("version: 0.1\nstorage: inmemory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := registryOn(config)
	command, starts := s.command, 0
	var taken net.Listener
	s.command = func(address string) (args, env []string) {
		if starts++; starts == 1 {
			var err error
			if taken, err = net.Listen("tcp", address); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { taken.Close() })
		}
		return command(address)
	}
	if address := s.start(t); starts != 2 || address == taken.Addr().String() {
		t.Errorf("it listens on %s after %d starts, and %s was taken", address, starts, taken.Addr())
	}
}
