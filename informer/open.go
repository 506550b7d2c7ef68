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
	"github.com/larder-dev/larder/store/memory"
)

// openWait bounds how long New waits for a previous informer: its reflector may take reflector.MaxStop to end, and its
// last write follows.
const openWait = reflector.MaxStop + 15*time.Second

// The values of Status.NotPersistent, which end users read too. store.Options.Encryption or Options.PersistSecrets
// makes Secrets persistent.
const (
	whyInMemory = "Options.InMemory is set"
	whySecrets  = "Secrets are kept in memory only: the store has no keys to seal them with, " +
		"and they are not to be stored without"
)

func (o Options) withDefaults(example runtime.Object) (Options, error) {
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
		o.Resource.Namespaced = o.Identity.Namespace != "" // the store derives Namespaced from the keys if it is false
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Codec == nil {
		var err error
		if o.Codec, err = codec.For(example); err != nil {
			return o, err
		}
	}
	return o, o.validate()
}

// kindOfExample returns the kind in the example object's type meta. For a typed object without one it returns the name
// of its Go type, which is the kind by convention.
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

func (o Options) validate() error {
	if o.SyncPolicy != Resumed && o.SyncPolicy != Disk {
		return fmt.Errorf("Options.SyncPolicy %q is neither Resumed nor Disk", o.SyncPolicy)
	}
	if o.PageSize < 0 || o.ResyncPeriod < 0 || o.AuditEvery < 0 {
		return fmt.Errorf("Options.PageSize %d, ResyncPeriod %v and AuditEvery %v must not be negative; 0 is the default",
			o.PageSize, o.ResyncPeriod, o.AuditEvery)
	}
	return nil
}

// open decides whether the objects are stored in the file or in memory, and opens the collection.
func (i *sharedInformer) open(ctx context.Context) error {
	o := &i.o
	i.attrs = entry.Attributes{Codec: o.Codec.Name(), Schema: o.Codec.Fingerprint(), Transform: o.TransformVersion}
	co := store.CollectionOptions{
		Codec: o.Codec, Indexers: o.Indexers, IndexVersions: o.IndexVersions, Resource: o.Resource,
		Residency: o.Residency, Compression: o.Compression, Closing: i.closing, Holder: i, Decodes: i.decodesAtOnce,
		History: o.History, Committed: i.notifyCommit,
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
		m, err := memory.New(o.Identity, co)
		if err != nil {
			return err
		}
		i.store, i.indexer = m, m.Indexer()
		i.complete()
		return nil
	}
	c, err := o.Store.Collection(ctx, o.Identity, co)
	if err != nil {
		return err
	}
	i.store, i.indexer, i.file, i.collection = c, c.Indexer(), o.Store, c
	i.indexer.BeforeRead(i.logUnstarted(i.clock.Now()))
	i.complete()
	return nil
}

func (i *sharedInformer) complete() {
	i.source, i.undecoded = i.listed()
	i.distribution = newDistribution(i)
	i.auditor = i.newAuditor()
}

// unstartedGrace is how long an informer may be read before its start without a warning.
const unstartedGrace = 10 * time.Second

// logUnstarted returns a function that is called at reads before the start. It logs once that the informer was not
// started. Without that line its readers could take the objects of an earlier run for the cluster's present state.
func (i *sharedInformer) logUnstarted(made time.Time) func() {
	return func() {
		if i.clock.Since(made) < unstartedGrace {
			return
		}
		i.indexer.BeforeRead(nil)
		i.unstarted.Do(func() {
			i.o.logger(context.Background()).Info("An informer is read that was not started: its reader gets the objects of an "+
				"earlier run. Start it, or its factory after the informers have been made", "type", i.o.ObjectDescription)
		})
	}
}

// secrets is the resource that a store with encryption keys seals by default.
var secrets = schema.GroupResource{Resource: "secrets"}

// holdsSecrets reports, by the identity's resource or the example's type, whether the objects are core Secrets.
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
