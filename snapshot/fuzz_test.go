package snapshot_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

func seeds(f *testing.F) {
	f.Helper()
	data := small().bytes(f, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 100), fileID{1}))
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(data[:len(data)-1])
	f.Add(append(bytes.Clone(data), data...))
	f.Add(content{}.bytes(f, snapshot.WithID(snapshot.WriterOptions{}, fileID{1})))
	f.Add([]byte(magic))
	f.Add([]byte(ageMagic + "v1\n"))
	f.Add([]byte(nil))
	golden, err := filepath.Glob("testdata/*.larder")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range golden {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// fuzzed opens arbitrary data as a snapshot and calls all reading methods, which must agree on the contents. Each error
// must be a documented one.
func fuzzed(t *testing.T, data []byte) {
	t.Helper()
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		if !typed(err) && !errors.Is(err, snapshot.ErrEncrypted) {
			t.Fatalf("Open: %v", err)
		}
		return
	}
	report, err := f.Verify(t.Context())
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	for _, c := range f.Manifest().Collections {
		last, n := "", 0
		err := f.Records(t.Context(), c.Identity, func(r entry.Entry) error {
			if r.Key <= last {
				t.Fatalf("%q after %q", r.Key, last)
			}
			last = r.Key
			n++
			return nil
		})
		if err != nil && (!typed(err) || len(report.Problems) == 0) || err == nil && n != c.Objects {
			t.Fatalf("Records: %v, %d objects of %d; Verify: %q", err, n, c.Objects, report.Problems)
		}
		for _, key := range []string{"a/1", "a/2", "b/1", "n2", ""} {
			if _, _, err := f.Get(t.Context(), c.Identity, key); err != nil && !typed(err) {
				t.Fatalf("Get: %v", err)
			}
		}
	}
}

func FuzzFile(f *testing.F) {
	seeds(f)
	f.Fuzz(fuzzed)
}

// FuzzParts fuzzes the contents of a snapshot's parts (descriptions, an index, a block) inside valid checksums.
func FuzzParts(f *testing.F) {
	good := keysOf("a", "b")
	f.Add(podsText+podCounts, good.appendIndex(nil), good.stored)
	f.Add(podsText, []byte(nil), []byte(nil))
	packed := rawBlock{first: "a", last: "b", count: 2, size: uint64(len(good.stored)) + 100,
		stored: encoder().EncodeAll(good.stored, nil)}
	f.Add(podsText+podCounts, packed.appendIndex(nil), packed.stored)
	f.Fuzz(func(t *testing.T, text string, index, stored []byte) {
		if index == nil {
			index = []byte{}
		}
		fuzzed(t, rawFile{collections: []rawCollection{{text: text, index: index,
			blocks: []rawBlock{{stored: stored}}}}}.bytes())
	})
}

func FuzzDamage(f *testing.F) {
	data := small().bytes(f, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 100), fileID{1}))
	for _, at := range []int{50, 300, 500, len(data) - 40} {
		f.Add(uint16(at), uint16(10), []byte(magic))
	}
	f.Add(uint16(0), uint16(0), []byte(nil))
	f.Add(uint16(200), uint16(900), data[100:400])
	f.Fuzz(func(t *testing.T, at, length uint16, insert []byte) {
		start := min(int(at), len(data))
		end := min(start+int(length), len(data))
		fuzzed(t, append(append(bytes.Clone(data[:start]), insert...), data[end:]...))
	})
}

func FuzzDecode(f *testing.F) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"token": "x",
			lastApplied: `{"env":[{"name":"PASSWORD","value":"x"}]}`}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
			Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "x"}}}}},
	}
	for _, c := range decodable() {
		for _, obj := range []runtime.Object{pod, &corev1.Secret{Data: map[string][]byte{"a": []byte("b")}},
			&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "b"}, "metadata": map[string]any{}}}} {
			codec, err := codec.For(obj)
			if err != nil {
				f.Fatal(err)
			}
			data, err := codec.Append(nil, obj)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(c, data, data)
		}
		f.Add(c, []byte(nil), []byte("\xc4\x02{}"))
		f.Add(c, []byte("\xc4\x04null"), []byte("\xc7\x00\x01"))
	}
	all := snapshot.Redaction{Secrets: true, ConfigMaps: true, Annotations: []string{"*token*"}, Env: []string{"*PASS*"},
		ManagedFields: true}
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte) {
		c, encoding := decodableCollection(which)
		before := memorySource{{c, []entry.Entry{{Key: "k", UID: "u", Encoding: encoding, Payload: a}}}}
		after := memorySource{{c, []entry.Entry{{Key: "k", UID: "u", Encoding: encoding, Payload: b}}}}
		redacted, err := snapshot.Select(before, snapshot.SelectOptions{Redaction: all})
		if err != nil {
			t.Fatal(err)
		}
		expected := func(err error) bool {
			return err == nil || errors.Is(err, snapshot.ErrDamaged) || errors.Is(err, snapshot.ErrUndecodable)
		}
		var out []byte
		err = redacted.Records(t.Context(), c.Identity, func(r entry.Entry) error { out = r.Payload; return nil })
		if !expected(err) {
			t.Logf("redact: %v", err) // the redacted object does not fit its Go type, which is allowed
		}
		if err == nil {
			if _, err := snapshot.NewDecoder(c).Decode(entry.Entry{Key: "k", Encoding: encoding, Payload: out}); err != nil {
				t.Fatalf("what was redacted cannot be decoded: %v", err)
			}
		}
		_, err = diff.Compare(t.Context(), before, after, diff.Options{}, func(diff.Change) error { return nil })
		if !expected(err) {
			t.Fatalf("Diff: %v", err)
		}
	})
}

func decodable() []uint8 {
	return []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
}

func decodableCollection(which uint8) (c snapshot.Collection, encoding string) {
	c.Identity, c.Resource.Kind = identityOf([]string{"pods", "secrets", "configmaps"}[int(which)%3]),
		[]string{"Pod", "Secret", "ConfigMap"}[int(which)%3]
	c.Identity.Representation = []entry.Representation{entry.Typed, entry.Unstructured, entry.Metadata}[int(which/3)%3]
	return c, []string{encodingProtobuf, encodingMsgpack}[int(which/9)%2]
}
