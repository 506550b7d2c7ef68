package cli

import (
	"fmt"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// settings are what a sync is told, by its arguments or by a configuration file.
type settings struct {
	store          string
	wanted         []wanted
	persistSecrets bool
	maxSize        int64
	forgetAfter    time.Duration
	keepChanges    time.Duration
	encryption     *seal.Encryption
	seals          []toSeal // names in the configuration, which must be of what is mirrored
	keyBy          string   // where its key is named, for hints
	listen         string
	ready          config.Ready
}

// wanted is a resource, or a category, that is to be mirrored.
type wanted struct {
	name string
	// everything asks for all resources that the server has, but for some, in the place of the name.
	everything     bool
	but            []string
	namespaces     []string // none is all
	labels, fields string
	representation entry.Representation
	// place is where the configuration asks for it; empty for an argument.
	place string
}

// identities are the collections of r that w asks for. The namespaces mean nothing to a resource that has none.
func (w wanted) identities(r resource) ([]entry.Identity, error) {
	id := entry.Identity{
		GroupVersionResource: r.GroupVersionResource, LabelSelector: w.labels, FieldSelector: w.fields,
		Representation: w.representation,
	}
	namespaces := []string{""}
	if r.Namespaced && len(w.namespaces) > 0 {
		namespaces = w.namespaces
	}
	var all []entry.Identity
	for _, id.Namespace = range namespaces {
		canonical, err := id.Canonical()
		if err != nil {
			return nil, w.at(err)
		}
		all = append(all, canonical)
	}
	return all, nil
}

// at adds where the configuration asks for it.
func (w wanted) at(err error) error {
	if w.place == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", w.place, err)
}

// fromArgs are the settings of the command line.
func (o *syncOptions) fromArgs(args []string) (settings, error) {
	s := settings{store: o.store.path, persistSecrets: o.persistSecrets, keepChanges: time.Duration(o.keepChanges),
		maxSize: int64(o.maxSize), ready: config.ReadyDisk, keyBy: byFlag}
	var err error
	if s.encryption, err = o.key.encryption(); err != nil {
		return s, err
	}
	names := splitArgs(args)
	if o.all {
		names = append(names, "")
	}
	for _, arg := range names {
		w := wanted{name: arg, everything: arg == "", but: splitArgs(o.exclude), labels: o.labels, fields: o.fields,
			representation: entry.Unstructured}
		if !o.allNamespaces {
			w.namespaces = o.namespaces
		}
		s.wanted = append(s.wanted, w)
	}
	if o.listen != "" {
		if s.listen, err = config.Address(o.listen); err != nil {
			return s, usagef("--listen %w", err)
		}
	}
	return s, nil
}

// fromConfig are those of a file. What the command line says of the store counts more.
func (o *syncOptions) fromConfig(c *config.Config) (settings, error) {
	s := settings{
		store: c.Store, persistSecrets: c.PersistSecrets, maxSize: c.MaxSize, forgetAfter: c.Retention.ForgetAfter,
		keepChanges: c.Retention.Changes,
		listen:      c.Listen, ready: c.Ready, keyBy: "encryption.keyFile in " + c.File,
	}
	var err error
	if s.encryption, err = sealing(c.Encryption); err != nil {
		return s, usageError{withHint(fmt.Errorf("%s:%d: encryption: %w", c.File, c.Encryption.Line, err), makeKey)}
	}
	s.seals = sealsOf(c)
	if o.store.path != "" {
		s.store = o.store.path
	}
	for _, r := range c.Resources {
		s.wanted = append(s.wanted, wanted{
			name: r.Name, namespaces: r.Namespaces, labels: r.LabelSelector, fields: r.FieldSelector,
			representation: r.Representation, place: fmt.Sprintf("%s:%d", c.File, r.Line),
		})
	}
	return s, nil
}

// connection lets the configuration say what the connection flags do not.
func (o *syncOptions) connection(c *configured) *clusterFlags {
	if c == nil {
		return o.cluster
	}
	if o.cluster.kubeconfig == "" && c.config.Kubeconfig != "" {
		o.cluster.kubeconfig = c.config.Kubeconfig
	}
	if o.cluster.overrides.CurrentContext == "" && c.config.Context != "" {
		o.cluster.overrides.CurrentContext = c.config.Context
	}
	return o.cluster
}

// storeOptions are those of the store.
func (s settings) storeOptions() store.Options {
	return store.Options{MaxSize: s.maxSize, ForgetAfter: s.forgetAfter, Encryption: s.encryption}
}
