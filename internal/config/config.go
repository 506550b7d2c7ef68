package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/larder-dev/larder/entry"
)

// apiVersion and kind of the file.
const (
	APIVersion = "larder.dev/v1alpha1"
	Kind       = "SyncConfig"
)

// Config is a configuration of larder sync.
type Config struct {
	// File is the path of the configuration file.
	File string
	// Store is the store's file; empty if the configuration has none.
	Store string
	// MaxSize bounds the store's file, in bytes; 0 means no limit.
	MaxSize   int64
	Resources []Resource
	// PersistSecrets stores secrets unencrypted.
	PersistSecrets bool
	// Encryption is nil if the store is not encrypted.
	Encryption *Encryption
	// Changes is how long changes are kept for larder watch --since; 0 means not at all.
	Changes time.Duration
	// Listen is host:port of the health and metrics endpoints, the host never empty; "" if they are off.
	Listen string
	Ready  Ready
	// Schemas enables storing the server's OpenAPI schemas.
	Schemas bool
	// Kubeconfig and Context are kubectl's flags of the same names; empty means the default.
	Kubeconfig, Context string
}

// Resource is one resource to mirror, or a category of resources.
type Resource struct {
	// Name as accepted by kubectl: pods, po, deployments.apps, all.
	Name string
	// Namespaces to mirror; empty means all.
	Namespaces []string
	// LabelSelector and FieldSelector have been validated, with environment variables replaced.
	LabelSelector, FieldSelector string
	// Representation is entry.Unstructured (full) or entry.Metadata.
	Representation entry.Representation
}

// Encryption says which resources are encrypted, and where the key is. One of KeyFile and KeyEnv is set.
type Encryption struct {
	KeyFile string
	KeyEnv  string
	// Resources by name, as resource or resource.group; never empty.
	Resources []string
	// Named is true if the file has the list; otherwise Resources is the default.
	Named bool
}

// Ready is the condition for a sync to be ready.
type Ready string

// The values of Ready.
const (
	// ReadyDisk: every resource can be read, from the store or from a first list. It does not need the server.
	ReadyDisk Ready = "disk"
	// ReadyResumed: every resource has caught up with the server once in this run.
	ReadyResumed Ready = "resumed"
)

// maxBytes bounds the file; a larger file is no configuration.
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

// Parse reads the content of a file. path is named in errors, and relative paths in the file are relative to its
// directory. The error has all problems, a line each.
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
