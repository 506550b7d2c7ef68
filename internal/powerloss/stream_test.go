package powerloss_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// stream is a scripted sequence of events of one resource. Events are numbered from 1, and their numbers are their
// resourceVersions. The sequence is the same in every process.
type stream struct {
	seed   uint64
	id     entry.Identity
	codec  func() (codec.Codec, error)
	object func(meta metav1.ObjectMeta, filler string) runtime.Object
}

var podStream = stream{
	seed: 1, id: storetest.Pods,
	codec: sync.OnceValues(func() (codec.Codec, error) { return codec.For(&corev1.Pod{}) }),
	object: func(meta metav1.ObjectMeta, filler string) runtime.Object {
		meta.Annotations = map[string]string{"filler": filler}
		return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "node-" + strconv.Itoa(len(filler)%9)}}
	},
}

var secretStream = stream{
	seed: 2, id: secretsID(),
	codec: sync.OnceValues(func() (codec.Codec, error) { return codec.For(&corev1.Secret{}) }),
	object: func(meta metav1.ObjectMeta, filler string) runtime.Object {
		return &corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"filler": []byte(filler)}}
	},
}

var streams = []stream{podStream, secretStream}

func secretsID() entry.Identity {
	id := storetest.Pods
	id.Resource = "secrets"
	return id
}

const streamKeys = 150

// version is the state of an object in a scripted stream: the numbers of the events that created it and that changed it
// last.
type version struct{ made, changed int }

// contents are the objects that exist after some event of a scripted stream.
type contents map[int]version

// next applies event n to the contents. It returns the number of the event's object, the object's previous version, and
// whether the event deleted the object.
func (c contents) next(st stream, n int) (object int, was version, deleted bool) {
	random := rand.New(rand.NewPCG(st.seed, uint64(n)))
	object = random.IntN(streamKeys)
	was, exists := c[object]
	switch {
	case exists && random.IntN(4) == 0:
		delete(c, object)
		return object, was, true
	case exists:
		c[object] = version{was.made, n}
	default:
		c[object] = version{n, n}
	}
	return object, was, false
}

func (st stream) after(n int) contents {
	c := contents{}
	for i := 1; i <= n; i++ {
		c.next(st, i)
	}
	return c
}

func (st stream) make(object int, v version) runtime.Object {
	random := rand.New(rand.NewPCG(st.seed, uint64(object)<<32|uint64(v.changed)))
	return st.object(metav1.ObjectMeta{
		Namespace: namespace(object), Name: name(object),
		UID: types.UID(fmt.Sprintf("uid-%d-%d", object, v.made)), ResourceVersion: strconv.Itoa(v.changed),
		Labels: map[string]string{storetest.ColorLabel: fmt.Sprintf("color-%d", random.IntN(20))},
	}, strings.Repeat(strconv.Itoa(v.changed)+" ", random.IntN(160)))
}

func (st stream) batch(c contents, from, to int) entry.Batch {
	b := entry.Batch{ResourceVersion: strconv.Itoa(to)}
	for n := from + 1; n <= to; n++ {
		object, was, deleted := c.next(st, n)
		if deleted {
			b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: st.make(object, version{was.made, n})})
		} else {
			b.Ops = append(b.Ops, entry.Op{Object: st.make(object, c[object])})
		}
	}
	return b
}

// options returns the options of the stream's collection. The codec is built once, because building it is expensive.
func (st stream) options() (store.CollectionOptions, error) {
	c, err := st.codec()
	return store.CollectionOptions{
		Codec: c, Residency: store.None,
		Indexers:      cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "color": byColor},
		IndexVersions: map[string]string{cache.NamespaceIndex: "1", "color": "1"},
	}, err
}

func byColor(obj any) ([]string, error) {
	return []string{obj.(metav1.Object).GetLabels()[storetest.ColorLabel]}, nil
}

// sorted returns the objects in key order, which is the order of their numbers.
func (c contents) sorted() []int { return slices.Sorted(maps.Keys(c)) }

func namespace(object int) string { return fmt.Sprintf("ns-%d", object/20) }
func name(object int) string      { return fmt.Sprintf("object-%03d", object) }

func content(object runtime.Object) (c [7]string) {
	meta := object.(metav1.Object)
	c = [7]string{meta.GetNamespace(), meta.GetName(), string(meta.GetUID()), meta.GetResourceVersion()}
	c[4] = meta.GetLabels()[storetest.ColorLabel]
	switch o := object.(type) {
	case *corev1.Pod:
		c[5], c[6] = o.Annotations["filler"], o.Spec.NodeName
	case *corev1.Secret:
		c[5], c[6] = string(o.Data["filler"]), string(o.Type)
	}
	return c
}
