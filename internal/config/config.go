package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	Retention  Retention
	// Listen is host:port of the health and metrics endpoints, the host never empty; "" if they are off.
	Listen string
	Ready  Ready
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
	// Line is where it begins in the file.
	Line int
}

// Encryption says what of the store is sealed, and where the key is. One of KeyFile and KeyEnv is set.
type Encryption struct {
	KeyFile string
	KeyEnv  string
	// Resources by name, as resource or resource.group; never empty.
	Resources []string
	// Lines are where the file names them; nil if it does not.
	Lines []int
	// Line is where the file says where the key is.
	Line int
}

// Retention says how long what is not needed any more is kept.
type Retention struct {
	// ForgetAfter is that of store.Options: 0 is its default, negative is for ever.
	ForgetAfter time.Duration
	// Changes is how long what changes is kept, for larder watch --since; 0 is not at all.
	Changes time.Duration
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
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Read returns the content of a file for Parse. It waits for nobody: what is not a regular file, or a link to one, is
// an error.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("the configuration %s is a directory", path)
	case !info.Mode().IsRegular(): // to open a pipe waits for who writes to it
		return nil, fmt.Errorf("the configuration %s is no regular file: it is read again and again, so write it to one",
			path)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("the configuration %s has %d bytes, and %d are the most: is it the right file?", path,
			info.Size(), maxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	return data, nil
}

// Parse reads the content of a file. path is for messages, and what relative paths in it begin with. The error is
// an [Errors].
func Parse(path string, data []byte) (*Config, error) {
	r := &reader{file: path, lookup: os.LookupEnv}
	c := &Config{File: path, Ready: ReadyDisk}
	if root, ok := r.document(data); ok {
		r.config(root, c)
	}
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	return c, nil
}

// RestartNeeded names what next has otherwise than c and cannot change in a sync that runs; empty if there is nothing.
func (c *Config) RestartNeeded(next *Config) []string {
	var all []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"store", c.Store == next.Store},
		{"maxSize", c.MaxSize == next.MaxSize},
		{"encryption", c.Encryption.equal(next.Encryption)},
		{"retention", c.Retention == next.Retention},
		{"listen", c.Listen == next.Listen},
		{"kubeconfig", c.Kubeconfig == next.Kubeconfig},
		{"context", c.Context == next.Context},
	} {
		if !f.same {
			all = append(all, f.name)
		}
	}
	return all
}

// beside returns a path of the file, which is relative to the file's directory.
func (r *reader) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

var errNotSet = errors.New("it is not set")
