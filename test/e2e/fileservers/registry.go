package fileservers

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"
)

// Registry starts an OCI registry without authentication, with its data in dir. It returns the address, 127.0.0.1:port.
func Registry(t testing.TB, dir string) (host string) {
	t.Helper()
	return registry(t, dir, nil)
}

// RegistryAs is Registry with HTTP basic authentication for one user. Other requests get 401 with a challenge.
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

// registry starts a registry. auth is the auth section of the registry's configuration, or nil. The program requires a
// configuration file; an environment variable sets the address.
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

func registryOn(config string) server {
	return server{
		name: "registry", ready: "/v2/",
		command: func(address string) (args, env []string) {
			// By default the program would send traces to a collector on this machine.
			return []string{"serve", config}, []string{"REGISTRY_HTTP_ADDR=" + address, "OTEL_TRACES_EXPORTER=none"}
		},
	}
}
