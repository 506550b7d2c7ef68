package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store/query"
)

// Seed opens a snapshot as a seed for informers (informer.Options.Seed). The snapshot must be taken after the given
// time; zero allows any. Each informer calls Seed and closes its File, so Seed should open a local copy rather than
// download one.
//
// A request can be narrower than the collection: one namespace of all, a label or field selector, metadata of whole
// objects, typed objects from unstructured ones. A collection that a transform or Go types may have changed is not
// used, nor Secrets of an unencrypted snapshot. ErrNoSeed names the reason for each collection of the resource.
type Seed func(ctx context.Context, after time.Time) (*File, error)

var _ seed.Source = Seed(nil)

// ErrNoSeed: the snapshot has no collection from which the informer can start.
var ErrNoSeed = errors.New("the snapshot is no seed for it")

// Seed implements seed.Source.
func (s Seed) Seed(ctx context.Context, want seed.Request) (*seed.Seed, error) {
	f, err := s(ctx, want.After)
	if err != nil {
		return nil, err
	}
	sd, err := f.seed(want)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sd, nil
}

// seed returns the first collection of f from which an informer with this request can start. Closing the seed closes f.
func (f *File) seed(want seed.Request) (*seed.Seed, error) {
	var near []string
	for _, c := range f.manifest.Collections {
		if c.Identity.GroupVersionResource != want.Identity.GroupVersionResource {
			continue
		}
		why := f.unfit(c, want)
		if why == "" {
			return f.seedOf(c, want)
		}
		near = append(near, c.Identity.String()+" "+why)
	}
	if len(near) == 0 {
		near = []string{"it has no " + want.Identity.GroupVersionResource.String()}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoSeed, strings.Join(near, "; "))
}

// unfit returns the reason why a collection of the requested resource cannot satisfy the request; "" if it can.
func (f *File) unfit(c Collection, want seed.Request) string {
	switch of, as := c.Identity.Representation, want.Identity.Representation; {
	case c.Attributes.ClusterID == "":
		return "does not say of which cluster it is"
	case c.Attributes.ClusterID != want.Cluster:
		return fmt.Sprintf("is of the cluster %s, and not of %s", c.Attributes.ClusterID, want.Cluster)
	case !c.Complete:
		return "is incomplete"
	case len(c.Filtered) > 0 || len(c.Redacted) > 0:
		return "lacks " + strings.Join(slices.Concat(c.Filtered, c.Redacted), ", ")
	case c.MustRelist != "":
		return "cannot be resumed: " + c.MustRelist
	case !entry.ComparableRV(c.ResourceVersion):
		return fmt.Sprintf("cannot be resumed from its resourceVersion %q", c.ResourceVersion)
	case c.Attributes.Transform != "":
		return "was changed by a transform"
	case of == entry.Metadata && as != entry.Metadata:
		return "has metadata only"
	case of == entry.Typed && (as == entry.Unstructured || as == entry.Typed && !want.Make.Takes(c.Attributes.Schema)):
		return "was written with Go types that may lack fields"
	case c.Confidential() != "" && !f.manifest.Encrypted:
		return "is confidential (" + c.Confidential() + "), and the snapshot is not encrypted"
	case f.taken(c).IsZero():
		return "does not say when it was taken"
	case f.maxAge > 0 && time.Since(f.taken(c)) > f.maxAge:
		return fmt.Sprintf("is of %s, more than %v ago", f.taken(c).UTC().Format(time.RFC3339), f.maxAge)
	case !f.taken(c).After(want.After):
		return "is as old as the seed that was too old, of " + want.After.UTC().Format(time.RFC3339)
	}
	return narrower(c.Identity, want.Identity)
}

// taken returns the last time at which the server is known to have had exactly the objects of c.
func (f *File) taken(c Collection) time.Time {
	if c.LastContact.IsZero() {
		return f.manifest.TakenAt
	}
	return c.LastContact
}

// narrower returns why a collection with identity has may lack objects that identity want covers; "" for none.
func narrower(has, want entry.Identity) string {
	switch {
	case has.Namespace != "" && has.Namespace != want.Namespace:
		return "is of the namespace " + has.Namespace
	case has.ShardSelector != "" && has.ShardSelector != want.ShardSelector:
		return "is of the shard " + has.ShardSelector
	}
	ls, err := labels.Parse(has.LabelSelector)
	wanted, wantedErr := labels.Parse(want.LabelSelector)
	if err := errors.Join(err, wantedErr); err != nil {
		return err.Error()
	}
	own, _ := ls.Requirements()
	asked, _ := wanted.Requirements()
	for _, r := range own {
		if !slices.ContainsFunc(asked, func(a labels.Requirement) bool { return a.String() == r.String() }) {
			return "is selected by the labels " + has.LabelSelector
		}
	}
	fs, err := fields.ParseSelector(has.FieldSelector)
	wantedFields, wantedErr := fields.ParseSelector(want.FieldSelector)
	if err := errors.Join(err, wantedErr); err != nil {
		return err.Error()
	}
	for _, r := range fs.Requirements() {
		if !slices.Contains(wantedFields.Requirements(), r) {
			return "is selected by the fields " + has.FieldSelector
		}
	}
	for _, r := range wantedFields.Requirements() {
		if slices.Contains(serverFields, r.Field) && has.FieldSelector != want.FieldSelector {
			return "cannot be narrowed by the field " + r.Field + ", which the server computes"
		}
	}
	return ""
}

// serverFields are field selectors that only the server can evaluate, because objects lack the field.
var serverFields = []string{"source", "status.successful", "spec.hostNetwork", "spec.unschedulable"}

// seedOf returns a seed with those objects of a collection that the request covers, in the requested representation.
func (f *File) seedOf(c Collection, want seed.Request) (*seed.Seed, error) {
	d := NewDecoder(c)
	k := keyRange{}
	if ns := want.Identity.Namespace; c.Identity.Namespace != ns {
		k.prefix = ns + "/"
	}
	matches, err := narrowing(c, want.Identity, d)
	if err != nil {
		return nil, err
	}
	of := metav1.TypeMeta{APIVersion: c.Identity.GroupVersion().String(), Kind: c.Resource.Kind}
	if want.Identity.Representation == entry.Metadata {
		of = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"}
	}
	convert := func(r entry.Entry) (*entry.Undecoded, error) { return converted(d, r, of, want.Make) }
	if want.Identity.Representation != c.Identity.Representation && want.Identity.Representation == entry.Metadata {
		convert = func(r entry.Entry) (*entry.Undecoded, error) { return metadataOf(d, r, of, want.Make) }
	}
	typed := c.Identity.Representation == entry.Typed && !codec.AsSent(c.Attributes.Schema)
	return &seed.Seed{
		Source: f.source, Taken: f.taken(c), ResourceVersion: c.ResourceVersion, OpenAPI: c.Attributes.OpenAPI,
		Wire:  c.Attributes.Wire,
		Close: f.Close,
		Objects: func(ctx context.Context, fn func(*entry.Undecoded) error) error {
			return f.scan(ctx, c.Identity, k, func(r entry.Entry) error {
				if ok, err := matches(r); err != nil || !ok {
					return err
				}
				obj, err := convert(r)
				if err != nil {
					return fmt.Errorf("%s: %w", r.Key, err)
				}
				obj.Typed = obj.Typed || typed
				return fn(obj)
			})
		},
	}, nil
}

// narrowing returns a function that reports whether a record of collection c matches the selectors of the request.
func narrowing(c Collection, want entry.Identity, d *Decoder) (func(entry.Entry) (bool, error), error) {
	if c.Identity.LabelSelector == want.LabelSelector && c.Identity.FieldSelector == want.FieldSelector {
		return func(entry.Entry) (bool, error) { return true, nil }, nil
	}
	ls, err := labels.Parse(want.LabelSelector)
	if err != nil {
		return nil, err
	}
	fs, err := fields.ParseSelector(want.FieldSelector)
	if err != nil {
		return nil, err
	}
	return query.Query{Labels: ls, Fields: fs}.ForEntries(d.view), nil
}

// converted returns the object of a record as a server would have sent it: undecoded, in protobuf or JSON.
func converted(d *Decoder, r entry.Entry, of metav1.TypeMeta, sent *codec.Sent) (*entry.Undecoded, error) {
	if r.Encoding == codec.EncodingProtobuf {
		message, err := codec.Message(r.Payload)
		if err != nil {
			return nil, err
		}
		if u, err := sent.Protobuf(message, of); err == nil {
			return u, nil
		} // the kind may have no protobuf form: JSON is used below
	}
	u, err := d.Decode(r)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	return sent.JSON(text, of)
}

func metadataOf(d *Decoder, r entry.Entry, of metav1.TypeMeta, sent *codec.Sent) (*entry.Undecoded, error) {
	u, err := d.Decode(r)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": of.APIVersion, "kind": of.Kind, "metadata": u.Object["metadata"],
	})
	if err != nil {
		return nil, err
	}
	return sent.JSON(text, of)
}
