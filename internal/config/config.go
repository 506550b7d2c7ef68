package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/larder-dev/larder/entry"
)

// A configuration file must have this apiVersion and kind.
const (
	APIVersion = "larder.dev/v1alpha1"
	Kind       = "SyncConfig"
)

type Config struct {
	File  string
	Store string
	// MaxSize is the maximum size of the store's file in bytes; 0 means no limit.
	MaxSize   int64
	Resources []Resource
	// PersistSecrets stores Secrets in the file without encryption.
	PersistSecrets bool
	Encryption     *Encryption
	// Changes is how long the store keeps changes for larder watch --since. If it is 0, the store keeps none.
	Changes time.Duration
	// Listen is the host:port of the health and metrics endpoints; "" if they are off. The host is never empty.
	Listen string
	Ready  Ready
	// Schemas enables storing the server's OpenAPI schemas in the store.
	Schemas bool
	// Kubeconfig and Context have the meaning of kubectl's flags of the same names. If they are empty, kubectl's
	// defaults apply.
	Kubeconfig, Context string
}

// Resource is one resource to mirror, or a category of resources.
type Resource struct {
	// Name is any name that kubectl accepts: pods, po, deployments.apps, or a category such as all.
	Name string
	// Namespaces limits the mirrored objects to these namespaces; empty means all namespaces.
	Namespaces []string
	// LabelSelector and FieldSelector are valid selectors, in which references to environment variables have been
	// replaced.
	LabelSelector, FieldSelector string
	// Representation is what is stored of each object: entry.Unstructured is all of it, entry.Metadata only its
	// metadata.
	Representation entry.Representation
}

// Encryption says which resources are encrypted. Either KeyFile or KeyEnv says where the key is.
type Encryption struct {
	KeyFile string
	KeyEnv  string
	// Resources are the encrypted resources, as resource or resource.group. The list is never empty.
	Resources []string
	// Named is true if the configuration file has the list of encrypted resources; otherwise Resources is the default.
	Named bool
}

// Ready says when a sync reports that it is ready.
type Ready string

const (
	// ReadyDisk: a sync is ready when every resource can be read, from the store or after its first list. With stored
	// resources it needs no server.
	ReadyDisk Ready = "disk"
	// ReadyResumed: a sync is ready when every resource has caught up with the server once since the process started.
	ReadyResumed Ready = "resumed"
)

const maxBytes = 1 << 20

func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // an error of closing a file that was only read loses nothing
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("the configuration %s has more than %d bytes: is it the right file?", path, maxBytes)
	}
	return Parse(path, data)
}

// Parse parses the content of a configuration file. Errors name path, and relative paths in the content are relative to
// the directory of path. The returned error lists all problems, a line each.
func Parse(path string, data []byte) (*Config, error) {
	d, wrong := decode(data)
	r := &reader{file: path}
	var c *Config
	if d != nil {
		c = r.config(d)
	}
	for _, err := range r.errors {
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 {
		return c, nil
	}
	for i, err := range wrong {
		wrong[i] = fmt.Errorf("%s: %w", path, err)
	}
	return nil, errors.Join(wrong...)
}
