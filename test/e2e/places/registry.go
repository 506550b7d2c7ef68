package places

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"
)

// Registry starts an OCI registry that stores everything in dir and returns its host, 127.0.0.1:port. Anybody may read,
// write and delete.
func Registry(t testing.TB, dir string) (host string) {
	t.Helper()
	return registry(t, dir, nil)
}

// RegistryAs is Registry for one user, who has to give a password by HTTP's basic authentication. Everybody else gets a
// 401 with a challenge.
func RegistryAs(t testing.TB, dir, user, password string) (host string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(users, []byte(user+":"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return registry(t, dir, map[string]any{"htpasswd": map[string]any{"realm": "larder", "path": users}})
}

// registry starts one with an auth section of its configuration; nil is none. The program does not start without a
// file; what is not in it may be in the environment, as the address is.
func registry(t testing.TB, dir string, auth map[string]any) (host string) {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "info"},
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": dir},
			"delete":     map[string]any{"enabled": true},
		},
		"auth": auth,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "registry.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return registryOn(config).start(t)
}

// registryOn returns the program with a configuration.
func registryOn(config string) server {
	return server{
		name: "registry", ready: "/v2/",
		command: func(address string) (args, env []string) {
			// Traces would go to a collector on this machine.
			return []string{"serve", config}, []string{"REGISTRY_HTTP_ADDR=" + address, "OTEL_TRACES_EXPORTER=none"}
		},
	}
}
