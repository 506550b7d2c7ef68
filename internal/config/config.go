package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/larder-dev/larder/entry"
)

// What the file calls itself.
const (
	APIVersion = "larder.dev/v1alpha1"
	Kind       = "SyncConfig"
)

// Config is a configuration of larder sync.
type Config struct {
	// File is where it was read from.
	File string
	// Store is the store's file; empty if the configuration does not say.
	Store string
	// MaxSize bounds it, in bytes; 0 is no limit.
	MaxSize   int64
	Resources []Resource
	// PersistSecrets stores secrets in clear.
	PersistSecrets bool
	// Encryption is nil if there is none.
	Encryption *Encryption
	// Changes is how long what changes is kept, for larder watch --since; 0 is not at all.
	Changes time.Duration
	// Listen is host:port of the health and metrics endpoints, the host never empty; "" if they are off.
	Listen string
	Ready  Ready
	// Schemas has the server's OpenAPI schemas stored.
	Schemas bool
	// Kubeconfig and Context are as kubectl's flags; empty is its default.
	Kubeconfig, Context string
}

// Resource is one resource to mirror, or a category of them.
type Resource struct {
	// Name as people say it: pods, po, deployments.apps, all.
	Name string
	// Namespaces are all if there are none.
	Namespaces []string
	// LabelSelector and FieldSelector have been parsed once, and environment variables put in.
	LabelSelector, FieldSelector string
	// Representation is entry.Unstructured (full) or entry.Metadata.
	Representation entry.Representation
}

// Encryption says what of the store is sealed, and where the key is. One of KeyFile and KeyEnv is set.
type Encryption struct {
	KeyFile string
	KeyEnv  string
	// Resources by name, as resource or resource.group; never empty.
	Resources []string
	// Named: the file names them.
	Named bool
}

// Ready says when a sync is ready.
type Ready string

// The values of Ready.
const (
	// ReadyDisk: every resource has a state to be read, from the store or from a first list. It does not need the server.
	ReadyDisk Ready = "disk"
	// ReadyResumed: every resource has caught up with the server once in this run.
	ReadyResumed Ready = "resumed"
)

// maxBytes bounds the file: whatever is larger is no configuration.
const maxBytes = 1 << 20

// Load reads a file.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("the configuration %s has more than %d bytes: is it the right file?", path, maxBytes)
	}
	return Parse(path, data)
}

// Parse reads the content of a file. path is for messages, and what relative paths in it begin with. The error has all
// that is wrong, a line each.
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
