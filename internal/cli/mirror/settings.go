package mirror

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

type settings struct {
	store          string
	wanted         []cluster.Wanted
	persistSecrets bool
	maxSize        int64
	keepChanges    time.Duration
	encryption     *seal.Encryption
	// seals are the resource names under encryption.resources, which must match mirrored resources.
	seals   []toSeal
	keyBy   string // keyBy is the flag or field with which the user names the encryption key, for hints
	listen  string
	ready   config.Ready
	schemas bool
}

func (o *syncOptions) fromArgs(args []string) (settings, error) {
	s := settings{store: o.store.Path, persistSecrets: o.persistSecrets, keepChanges: time.Duration(o.keepChanges),
		maxSize: int64(o.maxSize), ready: config.ReadyDisk, keyBy: input.ByFlag, schemas: o.schemas}
	var err error
	if s.encryption, err = o.key.Encryption(); err != nil {
		return s, err
	}
	names := input.SplitArgs(args)
	if o.all {
		names = append(names, "")
	}
	for _, arg := range names {
		w := cluster.Wanted{Name: arg, Everything: arg == "", But: input.SplitArgs(o.exclude), Labels: o.labels,
			Fields:         o.fields,
			Representation: entry.Unstructured}
		if !o.allNamespaces {
			w.Namespaces = o.namespaces
		}
		s.wanted = append(s.wanted, w)
	}
	if o.listen != "" {
		if s.listen, err = config.Address(o.listen); err != nil {
			return s, command.Usagef("--listen %w", err)
		}
	}
	return s, nil
}

// fromConfig returns the settings in a configuration file. Flags about the store file override them.
func (o *syncOptions) fromConfig(c *config.Config) (settings, error) {
	s := settings{
		store: c.Store, persistSecrets: c.PersistSecrets, maxSize: c.MaxSize, keepChanges: c.Changes,
		listen: c.Listen, ready: c.Ready, keyBy: "encryption.keyFile in " + c.File, schemas: c.Schemas,
	}
	var err error
	if s.encryption, err = sealing(c.Encryption); err != nil {
		return s, command.Usage(command.WithHint(fmt.Errorf("%s: encryption: %w", c.File, err),
			input.MakeKey))
	}
	s.seals = sealsOf(c)
	if o.store.Path != "" {
		s.store = o.store.Path
	}
	for i, r := range c.Resources {
		s.wanted = append(s.wanted, cluster.Wanted{
			Name: r.Name, Namespaces: r.Namespaces, Labels: r.LabelSelector, Fields: r.FieldSelector,
			Representation: r.Representation, Place: fmt.Sprintf("%s: resources[%d]", c.File, i),
		})
	}
	return s, nil
}

// connection returns the connection flags, with the configuration's values for flags that are not given.
func (o *syncOptions) connection(c *config.Config) *cluster.Flags {
	if c == nil {
		return o.cluster
	}
	if o.cluster.Kubeconfig == "" && c.Kubeconfig != "" {
		o.cluster.Kubeconfig = c.Kubeconfig
	}
	if o.cluster.Overrides.CurrentContext == "" && c.Context != "" {
		o.cluster.Overrides.CurrentContext = c.Context
	}
	return o.cluster
}

func (s settings) storeOptions() store.Options {
	return store.Options{MaxSize: s.maxSize, Encryption: s.encryption}
}

// sealing returns the encryption that a configuration sets up; nil without one, even if LARDER_KEY is set.
func sealing(c *config.Encryption) (*seal.Encryption, error) {
	if c == nil {
		return nil, nil
	}
	e := &seal.Encryption{}
	for _, name := range c.Resources {
		e.Resources = append(e.Resources, schema.ParseGroupResource(name))
	}
	keys, err := keysOf(c)
	e.Keys = keys
	return e, err
}

func keysOf(c *config.Encryption) (seal.KeyProvider, error) {
	if c.KeyFile != "" {
		return seal.KeysFromFile(c.KeyFile)
	}
	return seal.KeysFromEnv(c.KeyEnv)
}
