package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Directory is a temporary directory for a command that is to see one server alone: its kubeconfig, and its cache of
// discovery, which is another cluster's otherwise.
type Directory struct{ path string }

// NewDirectory makes the directory, with the mode 0700, below the system's for temporary files, and the kubeconfig in
// it. Call Remove at the end.
func NewDirectory(c Config) (*Directory, error) {
	path, err := os.MkdirTemp("", "larder-serve-")
	if err != nil {
		return nil, err
	}
	d := &Directory{path}
	if err := c.Write(d.Kubeconfig()); err != nil {
		_ = d.Remove() // the first error is the cause
		return nil, err
	}
	return d, nil
}

// Kubeconfig is the path of the kubeconfig.
func (d *Directory) Kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }

// Environ returns an environment, as os.Environ has it, with KUBECONFIG and KUBECACHEDIR of the directory, and without
// what makes in-cluster clients pass a kubeconfig by.
func (d *Directory) Environ(environ []string) []string {
	replaced := []string{"KUBECONFIG=", "KUBECACHEDIR=", "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT="}
	kept := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return slices.ContainsFunc(replaced, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(kept, "KUBECONFIG="+d.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(d.path, "cache"))
}

// Remove removes the directory with all that is in it.
func (d *Directory) Remove() error {
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("the directory of a kubeconfig stays behind, with its token: %w", err)
	}
	return nil
}
