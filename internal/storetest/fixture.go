package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// Open opens a store in a temporary directory. At the end of the test the store is checked and closed.
func Open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	return OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), o)
}

// OpenFile opens a store at path. At the end of the test the store is checked and closed, unless the test has closed
// it.
func OpenFile(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := s.Size(); err == nil {
			Check(t, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return s
}

// Failer is the part of testing.TB that rapid.T implements too.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Check fails the test if Store.Check finds a problem.
func Check(t Failer, s *store.Store) {
	t.Helper()
	report, err := s.Check(context.Background())
	if err != nil {
		t.Fatalf("check %s: %v", s.Path(), err)
	}
	for i, problem := range report.Problems {
		if i == len(report.Problems)-1 || i == 20 {
			t.Fatalf("check %s: %d problems, such as: %s", s.Path(), len(report.Problems), problem)
		}
	}
}

// Pods is the identity of the collection of Pods in all namespaces.
var Pods = entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

const (
	// ColorLabel is a label with the values that ByColor returns, separated by dots.
	ColorLabel = "color"
	// FailLabel is a label that makes ByColor fail: the value is "error" or "panic".
	FailLabel = "fail"
)

// ByColor is an index function that returns the values in the label ColorLabel.
func ByColor(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T has no color", obj)
	}
	switch pod.Labels[FailLabel] {
	case "error":
		return nil, errors.New("asked to fail")
	case "panic":
		panic("asked to panic")
	}
	if pod.Labels[ColorLabel] == "" {
		return nil, nil
	}
	return strings.Split(pod.Labels[ColorLabel], "."), nil
}

// ByName is an index function over the name, without the namespace.
func ByName(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T has no name", obj)
	}
	return []string{pod.Name}, nil
}

// Pod returns a pod. labels has the names of the pod's labels, and after each name its value.
func Pod(key, uid, rv string, labels ...string) *corev1.Pod {
	ns, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		name = key
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: types.UID(uid), ResourceVersion: rv,
	}}
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i+1] != "" {
			metav1.SetMetaDataLabel(&p.ObjectMeta, labels[i], labels[i+1])
		}
	}
	return p
}

// PodCodec returns a codec that encodes typed pods.
func PodCodec() codec.Codec {
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil
	}
	return codec
}

// Sum describes a pod in one line. Tests treat pods with equal descriptions as equal.
func Sum(obj runtime.Object) string {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	if pod == nil {
		return "nothing"
	}
	key, _ := cache.MetaNamespaceKeyFunc(pod)
	s := fmt.Sprintf("%s uid=%s rv=%s", key, pod.UID, pod.ResourceVersion)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		s += " " + name + "=" + pod.Labels[name]
	}
	return s
}

// Key returns a new encryption key, as text that Sealing accepts.
func Key(t Failer) string {
	t.Helper()
	line, err := seal.GenerateKey("")
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return line
}

// Sealing returns an Encryption that seals Pods under the first key and can decrypt records under the others.
func Sealing(t Failer, keys ...string) *seal.Encryption {
	t.Helper()
	parsed, err := seal.ParseKeys([]byte(strings.Join(keys, "\n")))
	if err != nil {
		t.Fatalf("parse keys: %v", err)
	}
	return &seal.Encryption{Keys: parsed, Resources: []schema.GroupResource{Pods.GroupResource()}}
}

// Flip damages the records of these keys in the unlocked file at path. Every collection in the file must have all the
// keys.
func Flip(t testing.TB, path string, keys ...string) {
	t.Helper()
	tamper(t, path, keys, disk.Flip)
}

// Punch removes the records of these keys and corrects the stored number of objects, so that only leftover index
// entries show the loss.
func Punch(t testing.TB, path string, keys ...string) {
	t.Helper()
	tamper(t, path, keys, (*bbolt.Bucket).Delete)
}

func tamper(t testing.TB, path string, keys []string, change func(objects *bbolt.Bucket, key []byte) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = db.Update(func(tx *bbolt.Tx) error {
		return disk.EachCollection(tx, func(id string, b *bbolt.Bucket) error {
			objects := b.Bucket(disk.Objects)
			for _, key := range keys {
				if objects.Get([]byte(key)) == nil {
					return fmt.Errorf("%s is not in collection %s", key, id)
				}
				if err := change(objects, []byte(key)); err != nil {
					return err
				}
			}
			left := disk.Len(objects)
			return disk.EditInfo(b, id, func(info map[string]any) { info["objects"] = left })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
