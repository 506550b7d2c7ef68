package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/serve/access/internal/private"
)

// Config is the content of a kubeconfig file.
type Config struct {
	Name string
	// Server is the URL of the server. It must begin with https, since clients send no token otherwise.
	Server string
	// CA has the certificates that clients trust, as PEM. Default: the certificates of the client's system.
	CA    []byte
	Token string
	// Namespace is the namespace of commands that name none. Default: "default".
	Namespace string
}

// Write creates or replaces the kubeconfig file atomically, with the mode 0600. It follows symbolic links. It fails if
// the file has entries under another name, which may be the only copy of a user's credentials.
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

// Check returns the error with which Write would refuse a path: the path cannot be resolved, its owner is not trusted,
// or the existing file is not a kubeconfig with entries of only that name.
func Check(path, name string) error {
	if _, err := target(path, name); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

func target(path, name string) (string, error) {
	real, err := base.RealPath(path)
	if err != nil {
		return "", err
	}
	if err := base.CheckOwner(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// Token returns the token in a kubeconfig that Write has written under the same name, so that clients can keep using
// the token after a restart. The error wraps fs.ErrNotExist if there is no file. Token also fails if other users could
// read the file.
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

func read(path, name string) (*api.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil { // the error may quote the file, which may have tokens
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

// Directory is a temporary directory for a command that must see only one server. It contains a kubeconfig, and the
// command's cache of discovery, which would otherwise be shared with other clusters.
type Directory struct{ path string }

// NewDirectory creates a temporary directory, with the mode 0700, and its kubeconfig. Call Remove afterwards.
func NewDirectory(c Config) (*Directory, error) {
	path, err := os.MkdirTemp("", "larder-serve-")
	if err != nil {
		return nil, err
	}
	d := &Directory{path}
	if err := c.Write(d.Kubeconfig()); err != nil {
		_ = d.Remove()
		return nil, err
	}
	return d, nil
}

// Kubeconfig returns the path of the kubeconfig in the directory.
func (d *Directory) Kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }

// Environ returns a copy of an environment, in the format of os.Environ, with KUBECONFIG and KUBECACHEDIR set to paths
// in the directory. It omits the variables that make clients use the in-cluster configuration.
func (d *Directory) Environ(environ []string) []string {
	replaced := []string{"KUBECONFIG=", "KUBECACHEDIR=", "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT="}
	kept := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return slices.ContainsFunc(replaced, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(kept, "KUBECONFIG="+d.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(d.path, "cache"))
}

// Remove removes the temporary directory and its contents.
func (d *Directory) Remove() error {
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("the directory of a kubeconfig stays behind, with its token: %w", err)
	}
	return nil
}
