package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/snapshot"
)

var seedTaken = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

type seedCase struct {
	c       snapshot.Collection
	records []entry.Entry
	header  snapshot.Header
	open    snapshot.OpenOptions
	write   snapshot.WriterOptions
	want    seed.Request
}

// newSeedCase returns a seedCase whose snapshot satisfies the request for a seed.
func newSeedCase(t *testing.T) *seedCase {
	pod := func(name string) entry.Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"namespace": "ns1", "name": name, "uid": "uid-" + name, "resourceVersion": "7"}}}
		return entry.Entry{Key: "ns1/" + name, UID: "uid-" + name, ResourceVersion: "7", Encoding: codec.EncodingMsgpack,
			Payload: value(codec.Unstructured().Append(nil, u))(t)}
	}
	return &seedCase{
		c: snapshot.Collection{Identity: identityOf("pods"), Attributes: entry.Attributes{ClusterID: "here"},
			Resource: entry.ResourceInfo{Kind: "Pod"}, ResourceVersion: "7", Complete: true, LastContact: seedTaken},
		records: []entry.Entry{pod("a"), pod("b")},
		want: seed.Request{Identity: identityOf("pods"), Cluster: "here",
			Make: codec.NewSent(codec.Unstructured(), &unstructured.Unstructured{}, false)},
	}
}

func (s *seedCase) read(t *testing.T) (objects int, err error) {
	data := content{header: s.header, collections: []contentOf{{s.c, s.records}}}.bytes(t, s.write)
	source := snapshot.Seed(func(context.Context, time.Time) (*snapshot.File, error) {
		return snapshot.NewFile(bytes.NewReader(data), int64(len(data)), s.open)
	})
	sd, err := source.Seed(t.Context(), s.want)
	if err != nil {
		return 0, err
	}
	err = sd.Objects(t.Context(), func(*entry.Undecoded) error {
		objects++
		return nil
	})
	return objects, errors.Join(err, sd.Close())
}

// TestSeedGuards checks that each reason to refuse a snapshot as a seed suffices alone, by changing one property of a
// valid case.
func TestSeedGuards(t *testing.T) {
	pods := value(codec.For(&corev1.Pod{}))(t)
	typed := func(schema string) func(s *seedCase) {
		return func(s *seedCase) {
			s.c.Identity.Representation, s.c.Attributes.Schema = entry.Typed, schema
			s.want.Identity.Representation = entry.Typed
			s.want.Make = codec.NewSent(pods, &corev1.Pod{}, false)
		}
	}
	identities := goldenIdentities(t)
	for name, tt := range map[string]struct {
		change func(s *seedCase)
		want   string // text of the expected reason; "" for a valid seed
	}{
		"a seed":     {func(*seedCase) {}, ""},
		"no cluster": {func(s *seedCase) { s.c.Attributes.ClusterID = "" }, "does not say of which cluster it is"},
		"no cluster, and none is known": {func(s *seedCase) { s.c.Attributes.ClusterID, s.want.Cluster = "", "" },
			"does not say of which cluster it is"},
		"another cluster": {func(s *seedCase) { s.want.Cluster = "there" }, "is of the cluster here, and not of there"},
		"incomplete":      {func(s *seedCase) { s.c.Complete = false }, "is incomplete"},
		"filtered":        {func(s *seedCase) { s.c.Filtered = []string{"namespaces"} }, "lacks namespaces"},
		"redacted":        {func(s *seedCase) { s.c.Redacted = []string{"env"} }, "lacks env"},
		"must be listed":  {func(s *seedCase) { s.c.MustRelist = "rewound" }, "cannot be resumed: rewound"},
		"no version":      {func(s *seedCase) { s.c.ResourceVersion = "" }, `from its resourceVersion ""`},
		"opaque version":  {func(s *seedCase) { s.c.ResourceVersion = "x" }, `from its resourceVersion "x"`},
		"transformed":     {func(s *seedCase) { s.c.Attributes.Transform = "v1" }, "was changed by a transform"},
		"metadata": {func(s *seedCase) { s.c.Identity.Representation = entry.Metadata },
			"has metadata only"},
		"the same Go types": {typed(pods.Fingerprint()), ""},
		"any, as sent":      {typed(codec.SentFingerprint(pods)), ""},
		"other Go types":    {typed("other types"), "was written with Go types that may lack fields"},
		"Go types, for unstructured objects": {func(s *seedCase) { s.c.Identity.Representation = entry.Typed },
			"was written with Go types that may lack fields"},
		"metadata of Go types": {func(s *seedCase) {
			s.c.Identity.Representation, s.want.Identity.Representation = entry.Typed, entry.Metadata
			example := &metav1.PartialObjectMetadata{}
			s.want.Make = codec.NewSent(value(codec.For(example))(t), example, false)
		}, ""},
		"Secrets": {func(s *seedCase) { s.c.Identity, s.want.Identity = identityOf("secrets"), identityOf("secrets") },
			"is confidential (they are Secrets), and the snapshot is not encrypted"},
		"Secrets, encrypted": {func(s *seedCase) {
			s.c.Identity, s.want.Identity = identityOf("secrets"), identityOf("secrets")
			s.write.Recipients, s.open.Identities = recipientsOf(t, identities), identities
		}, ""},
		"sealed by the store": {func(s *seedCase) { s.c.Sealed = true },
			"is confidential (the store that they are from seals them), and the snapshot is not encrypted"},
		"no time":                {func(s *seedCase) { s.c.LastContact = time.Time{} }, "does not say when it was taken"},
		"the time of the header": {func(s *seedCase) { s.c.LastContact, s.header.TakenAt = time.Time{}, seedTaken }, ""},
		"too old":                {func(s *seedCase) { s.open.MaxAge = time.Nanosecond }, "is of 2026-11-01T12:00:00Z, more than 1ns ago"},
		"a newer one is wanted": {func(s *seedCase) { s.want.After = seedTaken },
			"is as old as the seed that was too old, of 2026-11-01T12:00:00Z"},
		"one newer than that": {func(s *seedCase) { s.want.After = seedTaken.Add(-time.Second) }, ""},
		"a namespace":         {func(s *seedCase) { s.c.Identity.Namespace = "ns1" }, "is of the namespace ns1"},
		"a shard": {func(s *seedCase) {
			s.c.Identity.ShardSelector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
		}, "is of the shard"},
		"labels": {func(s *seedCase) { s.c.Identity.LabelSelector = "a=1" }, "is selected by the labels a=1"},
		"other labels": {func(s *seedCase) { s.c.Identity.LabelSelector, s.want.Identity.LabelSelector = "a=1", "a=2" },
			"is selected by the labels a=1"},
		"fields": {func(s *seedCase) { s.c.Identity.FieldSelector = "metadata.name=a" },
			"is selected by the fields metadata.name=a"},
		"a field of the server": {func(s *seedCase) { s.want.Identity.FieldSelector = "spec.hostNetwork=true" },
			"cannot be narrowed by the field spec.hostNetwork"},
		"no label selector": {func(s *seedCase) { s.want.Identity.LabelSelector = "a in (" }, "unable to parse"},
		"no field selector": {func(s *seedCase) { s.want.Identity.FieldSelector = "a" }, "invalid selector"},
		"another resource": {func(s *seedCase) { s.want.Identity.Resource = "nodes" },
			"it has no /v1, Resource=nodes"},
		"a record that cannot be decoded": {func(s *seedCase) { s.records[1].Payload = []byte{0xc1} }, "ns1/b: "},
		"a message that cannot be cut": {func(s *seedCase) {
			s.records[1].Encoding, s.records[1].Payload = codec.EncodingProtobuf, []byte{0xff}
		}, "ns1/b: "},
		"metadata that cannot be decoded": {func(s *seedCase) {
			s.want.Identity.Representation, s.records[1].Payload = entry.Metadata, []byte{0xc1}
		}, "ns1/b: "},
		"fields of an object that cannot be decoded": {func(s *seedCase) {
			s.want.Identity.FieldSelector, s.records[0].Payload = "spec.x=1", []byte{0xc4, 1, '{'}
		}, "ns1/a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeedCase(t)
			tt.change(s)
			objects, err := s.read(t)
			if tt.want == "" && (err != nil || objects != len(s.records)) {
				t.Errorf("%d objects, %v", objects, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%d objects, %v, want %q", objects, err, tt.want)
			}
		})
	}
}

type closes struct {
	*bytes.Reader
	n *int
}

func (c closes) Close() error {
	*c.n++
	return nil
}

// TestSeedCloses checks that a snapshot that is refused as a seed is closed at once, and otherwise by Close of the
// seed.
func TestSeedCloses(t *testing.T) {
	for cluster, refused := range map[string]bool{"here": false, "there": true} {
		s := newSeedCase(t)
		data := content{collections: []contentOf{{s.c, s.records}}}.bytes(t, s.write)
		closed := 0
		s.want.Cluster = cluster
		sd, err := snapshot.Seed(func(context.Context, time.Time) (*snapshot.File, error) {
			return snapshot.NewFile(closes{bytes.NewReader(data), &closed}, int64(len(data)), s.open)
		}).Seed(t.Context(), s.want)
		if refused {
			if !errors.Is(err, snapshot.ErrNoSeed) || closed != 1 {
				t.Errorf("%v, closed %d times", err, closed)
			}
			continue
		}
		if err != nil || closed != 0 {
			t.Fatal(err, closed)
		}
		if err := sd.Close(); err != nil || closed != 1 {
			t.Errorf("%v, closed %d times", err, closed)
		}
	}
	failed := errors.New("from the test")
	_, err := snapshot.Seed(func(context.Context, time.Time) (*snapshot.File, error) { return nil, failed }).
		Seed(t.Context(), newSeedCase(t).want)
	if !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
}
