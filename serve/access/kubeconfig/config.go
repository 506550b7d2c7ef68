package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/owner"
	"github.com/larder-dev/larder/internal/realpath"
	"github.com/larder-dev/larder/serve/access/internal/private"
)

// Config is what is in the file.
type Config struct {
	// Name is that of the context, the cluster and the user.
	Name string
	// Server is the URL. It begins with https: clients send no token otherwise.
	Server string
	// CA is the PEM of the certificates to trust. Default: those that the client's system trusts.
	CA []byte
	// Token is the bearer token.
	Token string
	// Namespace of commands that name none. Default: "default", as clients have it.
	Namespace string
}

// Write makes the file with the mode 0600, or replaces it, so that a reader sees the old one or the new one. Of a
// symbolic link what it leads to is replaced. A file that has more than Write has written earlier under the same name
// is left alone, and an error: it may be the only copy of somebody's credentials.
func (c Config) Write(path string) error {
	data, err := c.encode()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	real, err := target(path, c.Name)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := private.WriteFile(real, data); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// Check returns why Write would leave the file alone, or could not make it.
func Check(path, name string) error {
	if _, err := target(path, name); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// target returns the file that is written for a path.
func target(path, name string) (string, error) {
	real, err := realpath.Of(path)
	if err != nil {
		return "", err
	}
	if err := owner.Check(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, err := read(real, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return real, nil
}

func (c Config) encode() ([]byte, error) {
	if !strings.HasPrefix(c.Server, "https://") {
		return nil, fmt.Errorf("the server is %q and must begin with https://", c.Server)
	}
	if c.Name == "" || c.Token == "" {
		return nil, errors.New("it needs a name and a token")
	}
	config := api.NewConfig()
	config.Clusters[c.Name] = &api.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}
	config.AuthInfos[c.Name] = &api.AuthInfo{Token: c.Token}
	config.Contexts[c.Name] = &api.Context{Cluster: c.Name, AuthInfo: c.Name, Namespace: c.Namespace}
	config.CurrentContext = c.Name
	return clientcmd.Write(*config)
}

// Token returns the token of a file that Write has written under the same name, so that clients go on with it after a
// restart. The error wraps fs.ErrNotExist if there is no file, and tells if others than its owner could read it.
func Token(path, name string) (string, error) {
	if err := private.Check(path); err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := read(path, name)
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	user := config.AuthInfos[name]
	if user == nil || user.Token == "" {
		return "", fmt.Errorf("kubeconfig: %s has no token", path)
	}
	return user.Token, nil
}

// read reads a file, and fails if it has anything of another name.
func read(path, name string) (*api.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil { // its text may have some of the contents
		return nil, fmt.Errorf("%s is there and is no kubeconfig; remove it or give another path", path)
	}
	others := map[string]bool{}
	for _, names := range []func(func(string) bool){
		maps.Keys(config.Clusters), maps.Keys(config.AuthInfos), maps.Keys(config.Contexts),
	} {
		for n := range names {
			if n != name {
				others[n] = true
			}
		}
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("%s has more than the context %s, so it is left alone; give another path", path, name)
	}
	return config, nil
}
