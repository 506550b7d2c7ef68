package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
