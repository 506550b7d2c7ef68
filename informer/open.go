package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// openWait bounds how long New waits, for the informer that it replaces to end: for as long as the reflector of that
// one may take, and then its last write.
const openWait = reflector.MaxStop + 15*time.Second

// Reasons in Status.NotPersistent, which users of programs read, too. That of Secrets ends with
// store.Options.Encryption, or Options.PersistSecrets.
const (
	whyInMemory = "Options.InMemory is set"
	whySecrets  = "Secrets are kept in memory only: the store has no keys to seal them with, " +
		"and they are not to be stored without"
)

func (o Options) withDefaults(example runtime.Object) Options {
	if o.SyncPolicy == "" {
		o.SyncPolicy = Resumed
	}
	if o.Identity.Representation == "" {
		o.Identity.Representation = representationOf(example)
	}
	if o.ObjectDescription == "" {
		o.ObjectDescription = fmt.Sprintf("%T", example)
		if gvk := example.GetObjectKind().GroupVersionKind(); o.Identity.Representation != entry.Typed && !gvk.Empty() {
			o.ObjectDescription = gvk.String()
		}
	}
	if o.Resource.Kind == "" {
		o.Resource.Kind = kindOfExample(example)
		o.Resource.Singular = strings.ToLower(o.Resource.Kind)
		o.Resource.Namespaced = o.Identity.Namespace != "" // else it is not known, and the keys will say
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// kindOfExample is what the example object says of its kind, else by custom the name of its Go type.
func kindOfExample(example runtime.Object) string {
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" || representationOf(example) != entry.Typed {
		return kind
	}
	t := reflect.TypeOf(example)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

func representationOf(example runtime.Object) entry.Representation {
	switch example.(type) {
	case runtime.Unstructured:
		return entry.Unstructured
	case *metav1.PartialObjectMetadata:
		return entry.Metadata
	}
	return entry.Typed
}

// open chooses and opens the collection.
func (i *Informer) open() error {
	o := &i.o
	if o.SyncPolicy != Resumed && o.SyncPolicy != Disk {
		return fmt.Errorf("Options.SyncPolicy %q is neither Resumed nor Disk", o.SyncPolicy)
	}
	if o.PageSize < 0 || o.ResyncPeriod < 0 || o.AuditEvery < 0 {
		return fmt.Errorf("Options.PageSize %d, ResyncPeriod %v and AuditEvery %v must not be negative; 0 is the default",
			o.PageSize, o.ResyncPeriod, o.AuditEvery)
	}
	if o.Codec == nil {
		codec, err := codec.For(i.example)
		if err != nil {
			return err
		}
		o.Codec = codec
	}
	i.attrs = entry.Attributes{Codec: o.Codec.Name(), Schema: o.Codec.Fingerprint(), Transform: o.TransformVersion}
	co := store.CollectionOptions{
		Codec: o.Codec, Indexers: o.Indexers, IndexVersions: o.IndexVersions, Resource: o.Resource,
		Residency: o.Residency, Compression: o.Compression, Closing: i.closing,
	}
	if o.Observer != nil {
		co.Committed = i.tellCommit
	}
	secret := holdsSecrets(o.Identity, i.example)
	co.Seal = secret && o.Store != nil && o.Store.Seals(secrets)
	switch {
	case o.InMemory:
		i.memoryOnly = whyInMemory
	case secret && !co.Seal && !o.PersistSecrets:
		i.memoryOnly = whySecrets
	case o.Store == nil:
		return errors.New("no store to keep the objects in; set Options.Store or Options.InMemory")
	case o.Store.ReadOnly():
		return fmt.Errorf("keep the objects in %s: %w; open it for writing", o.Store.Path(), store.ErrReadOnly)
	}
	if i.memoryOnly != "" {
		m, err := store.NewMemory(o.Identity, co)
		if err != nil {
			return err
		}
		i.store, i.indexer = m, m.Indexer()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	c, err := o.Store.Collection(ctx, o.Identity, co)
	if err != nil {
		return err
	}
	i.store, i.indexer, i.file, i.collection = c, c.Indexer(), o.Store, c
	return nil
}

// secrets is what a store seals, if it has keys, unless it is told otherwise.
var secrets = schema.GroupResource{Resource: "secrets"}

// holdsSecrets reports whether these are core Secrets, in whatever form: by what is listed, or by the
// type of the objects if the identity calls them otherwise.
func holdsSecrets(id entry.Identity, example runtime.Object) bool {
	if id.Group == "" && strings.EqualFold(id.Resource, "secrets") {
		return true
	}
	if _, ok := example.(*corev1.Secret); ok {
		return true
	}
	gvk := example.GetObjectKind().GroupVersionKind()
	return gvk.Group == "" && gvk.Kind == "Secret"
}
