package storetest

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// Undecoded returns a wrapper of c that converts objects to entry.Undecoded before it passes them to c, as package
// reflector/wire does. The changes that the wrapper returns are decoded.
func Undecoded(c store.Interface) store.Interface { return undecoding{c, NewSender(PodCodec())} }

// Sender converts pods to entry.Undecoded, the form of objects that are not decoded yet.
type Sender struct {
	codec codec.Codec
	kind  entry.UndecodedKind
	// Decoded counts the Sender's objects that were decoded.
	Decoded atomic.Int64
}

// NewSender returns a Sender that encodes pods with c.
func NewSender(c codec.Codec) *Sender {
	s := &Sender{codec: c}
	s.kind = entry.UndecodedKind{
		Type: reflect.TypeFor[*corev1.Pod](),
		Decode: func(encoding string, payload []byte) (runtime.Object, error) {
			s.Decoded.Add(1)
			return codec.Decode(c, encoding, payload)
		},
	}
	return s
}

// Send returns a pod as an entry.Undecoded, and any other object unchanged.
func (s *Sender) Send(obj runtime.Object) runtime.Object {
	payload, err := s.codec.Append(nil, obj)
	if err != nil {
		return obj
	}
	return s.Raw(obj, payload)
}

// Raw returns an undecoded object with the metadata of obj and the given payload.
func (s *Sender) Raw(obj runtime.Object, payload []byte) *entry.Undecoded {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(fmt.Sprintf("a %T has no metadata", obj))
	}
	return entry.NewUndecoded(&s.kind, metav1.TypeMeta{}, metav1.ObjectMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
	}, s.codec.Name(), payload)
}

type undecoding struct {
	store.Interface
	sender *Sender
}

func (u undecoding) op(op entry.Op) entry.Op {
	if obj, ok := op.Object.(runtime.Object); ok && op.Type != entry.LeaveOut {
		op.Object = u.sender.Send(obj)
	}
	return op
}

func (u undecoding) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	ops := make([]entry.Op, len(b.Ops))
	for i, op := range b.Ops {
		ops[i] = u.op(op)
	}
	b.Ops = ops
	return decodedChanges(u.Interface.Apply(ctx, b))
}

func (u undecoding) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := u.Interface.BeginReplace(ctx, o)
	if err != nil {
		return nil, err
	}
	return undecodingList{r, u}, nil
}

type undecodingList struct {
	store.Replacement
	to undecoding
}

func (l undecodingList) Page(
	ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut,
) (entry.Result, error) {
	sent := make([]runtime.Object, len(items))
	for i, obj := range items {
		sent[i] = l.to.sender.Send(obj)
	}
	return decodedChanges(l.Replacement.Page(ctx, sent, leftOut...))
}

func (l undecodingList) Event(ctx context.Context, op entry.Op) (entry.Result, error) {
	return decodedChanges(l.Replacement.Event(ctx, l.to.op(op)))
}

func (l undecodingList) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	return decodedChanges(l.Replacement.Commit(ctx, b))
}

func decodedChanges(r entry.Result, err error) (entry.Result, error) {
	for i := range r.Changes {
		c := &r.Changes[i]
		for _, obj := range []*runtime.Object{&c.Old, &c.New} {
			var failed error
			if *obj, failed = entry.Decoded(*obj); failed != nil {
				return r, failed
			}
		}
	}
	return r, err
}
