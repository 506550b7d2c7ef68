package entry

import (
	"reflect"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Undecoded is an object as an API server sent it: its payload, and the metadata that an informer needs of every
// object. It is decoded at most once, when Object is first called. It is a runtime.Object, so that it can replace the
// decoded object on its way into a store. Handlers, transforms and readers never see it.
//
// It is immutable and safe for concurrent use.
type Undecoded struct {
	Entry
	// Typed is true if the payload was encoded from a Go struct, so it lacks fields that the struct lacks. It is set
	// before the object is shared.
	Typed bool
	kind  *UndecodedKind
	of    metav1.TypeMeta
	meta  metav1.ObjectMeta

	decoding sync.Mutex
	decoded  atomic.Pointer[decoded] // result of decoding; nil until the payload has been decoded
}

// UndecodedKind holds the Go type, the kind and the decoder that many Undecoded objects share.
type UndecodedKind struct {
	// Type is the Go type of the decoded objects, such as *v1.Pod.
	Type reflect.Type
	// Kind is the Kubernetes kind of the objects, such as Pod. Default: unknown.
	Kind string
	// Decode returns a new object from a payload. Its errors wrap ErrDamaged or ErrIncompatible.
	Decode func(encoding string, payload []byte) (runtime.Object, error)
}

var (
	_ runtime.Object            = &Undecoded{}
	_ schema.ObjectKind         = &Undecoded{}
	_ metav1.ObjectMetaAccessor = &Undecoded{}
)

// NewUndecoded returns an Undecoded with a payload. The argument of is the object's apiVersion and kind, and meta has
// its namespace, name, UID and resourceVersion, and its labels if they are needed before the object is decoded.
func NewUndecoded(
	kind *UndecodedKind, of metav1.TypeMeta, meta metav1.ObjectMeta, encoding string, payload []byte,
) *Undecoded {
	u := &Undecoded{kind: kind, of: of, meta: meta}
	ref := RefOf(&u.meta)
	u.Entry = Entry{
		Key: ref.Key, UID: ref.UID, ResourceVersion: ref.ResourceVersion, Encoding: encoding, Payload: payload,
	}
	return u
}

// NewUndecodable returns an Undecoded without a payload, whose Object always fails with err. The arguments kind, of and
// meta have the same meaning as for NewUndecoded.
func NewUndecodable(kind *UndecodedKind, of metav1.TypeMeta, meta metav1.ObjectMeta, err error) *Undecoded {
	u := NewUndecoded(kind, of, meta, "", nil)
	u.decoded.Store(&decoded{err: err})
	return u
}

// decoded is the result of decoding.
type decoded struct {
	obj runtime.Object
	err error
}

// Object returns the decoded object, which all callers share, or the error of decoding it.
func (u *Undecoded) Object() (runtime.Object, error) {
	if d := u.decoded.Load(); d != nil {
		return d.obj, d.err
	}
	u.decoding.Lock()
	defer u.decoding.Unlock()
	d := u.decoded.Load()
	if d == nil {
		d = &decoded{}
		d.obj, d.err = u.kind.Decode(u.Encoding, u.Payload)
		u.decoded.Store(d)
	}
	return d.obj, d.err
}

// Keep sets the decoded object, for a caller that has decoded it already. It must be called before u is shared.
func (u *Undecoded) Keep(obj runtime.Object) { u.decoded.Store(&decoded{obj: obj}) }

// Err returns the error of decoding the object, if it is known already, and nil otherwise.
func (u *Undecoded) Err() error {
	if d := u.decoded.Load(); d != nil {
		return d.err
	}
	return nil
}

// Type returns the Go type of the decoded object.
func (u *Undecoded) Type() reflect.Type { return u.kind.Type }

// OtherKind reports whether the object's kind is known and differs from the kind that its UndecodedKind has.
func (u *Undecoded) OtherKind() bool {
	return u.kind.Kind != "" && u.of.Kind != "" && u.of.Kind != u.kind.Kind
}

// Size returns the length of the payload in bytes.
func (u *Undecoded) Size() int { return len(u.Payload) }

// GetObjectMeta implements metav1.ObjectMetaAccessor: the namespace, name, UID and resourceVersion of the object, and
// its labels if NewUndecoded was given them. It must not be changed.
func (u *Undecoded) GetObjectMeta() metav1.Object { return &u.meta }

// GetObjectKind implements runtime.Object.
func (u *Undecoded) GetObjectKind() schema.ObjectKind { return u }

// GroupVersionKind implements schema.ObjectKind.
func (u *Undecoded) GroupVersionKind() schema.GroupVersionKind { return u.of.GroupVersionKind() }

// SetGroupVersionKind implements schema.ObjectKind. It does nothing.
func (u *Undecoded) SetGroupVersionKind(schema.GroupVersionKind) {}

// DeepCopyObject implements runtime.Object. It returns u.
func (u *Undecoded) DeepCopyObject() runtime.Object { return u }

// Decoded returns obj, or the decoded object if obj is an *Undecoded.
func Decoded(obj runtime.Object) (runtime.Object, error) {
	if u, ok := obj.(*Undecoded); ok {
		return u.Object()
	}
	return obj, nil
}
