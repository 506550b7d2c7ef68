package entry

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Undecoded is an object as an API server sent it: its payload, and the metadata that an informer needs of every
// object. Object decodes the payload at most once. Undecoded implements runtime.Object to replace the decoded object on
// its way into a store. Handlers, transforms and readers never see it. It is immutable and safe for concurrent use.
type Undecoded struct {
	Entry
	// Typed is true if the payload was encoded from a Go struct, so it lacks fields that the struct lacks. It must be set
	// before other goroutines get the object.
	Typed bool
	kind  *UndecodedKind
	of    metav1.TypeMeta
	meta  metav1.ObjectMeta

	decoding sync.Mutex
	decoded  atomic.Pointer[decoded] // nil until the payload has been decoded
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

// NewUndecoded returns an Undecoded with a payload. The argument of is the object's apiVersion and kind. meta has the
// object's namespace, name, UID and resourceVersion, and its labels if they are needed before decoding.
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

// NewUndecodable returns an Undecoded whose Object always fails with err. For the other arguments see NewUndecoded.
func NewUndecodable(kind *UndecodedKind, of metav1.TypeMeta, meta metav1.ObjectMeta, err error) *Undecoded {
	u := NewUndecoded(kind, of, meta, "", nil)
	u.decoded.Store(&decoded{err: err})
	return u
}

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

// Keep sets the decoded object, for a caller that has it already. It must be called before other goroutines get u.
func (u *Undecoded) Keep(obj runtime.Object) { u.decoded.Store(&decoded{obj: obj}) }

// Err returns the known error of decoding the object, and nil before the object is decoded.
func (u *Undecoded) Err() error {
	if d := u.decoded.Load(); d != nil {
		return d.err
	}
	return nil
}

// Type returns the Go type of the decoded object.
func (u *Undecoded) Type() reflect.Type { return u.kind.Type }

// OtherKind reports whether the object's kind is known and differs from UndecodedKind.Kind.
func (u *Undecoded) OtherKind() bool {
	return u.kind.Kind != "" && u.of.Kind != "" && u.of.Kind != u.kind.Kind
}

// Size returns the length of the payload in bytes.
func (u *Undecoded) Size() int { return len(u.Payload) }

// GetObjectMeta implements metav1.ObjectMetaAccessor. The result has the namespace, name, UID and resourceVersion of
// the object, and labels if NewUndecoded got them. Callers must not change it.
func (u *Undecoded) GetObjectMeta() metav1.Object { return &u.meta }

// GetObjectKind implements runtime.Object.
func (u *Undecoded) GetObjectKind() schema.ObjectKind { return u }

// GroupVersionKind implements schema.ObjectKind.
func (u *Undecoded) GroupVersionKind() schema.GroupVersionKind { return u.of.GroupVersionKind() }

// SetGroupVersionKind implements schema.ObjectKind. It does nothing.
func (u *Undecoded) SetGroupVersionKind(schema.GroupVersionKind) {}

// DeepCopyObject implements runtime.Object. It returns u.
func (u *Undecoded) DeepCopyObject() runtime.Object { return u }

// Decoded returns the decoded object of an *Undecoded, and any other obj unchanged.
func Decoded(obj runtime.Object) (runtime.Object, error) {
	if u, ok := obj.(*Undecoded); ok {
		return u.Object()
	}
	return obj, nil
}

var errNoMetadata = errors.New("it is not a Kubernetes object: it has no metadata")

// ReadMetadata returns the metadata of the object in the JSON text. Some aggregated APIs send metadata that do not fit
// ObjectMeta, such as an empty creationTimestamp (kubernetes#91582). Members that do not fit stay empty, and unfit has
// their names. ReadMetadata fails if text has no metadata at all; the error quotes nothing of text.
func ReadMetadata(text []byte) (m *metav1.PartialObjectMetadata, unfit []string, err error) {
	m = &metav1.PartialObjectMetadata{}
	if json.Unmarshal(text, m) == nil {
		return m, nil, nil
	}
	var members struct {
		APIVersion any                        `json:"apiVersion"`
		Kind       any                        `json:"kind"`
		Metadata   map[string]json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(text, &members) != nil || members.Metadata == nil {
		return nil, nil, errNoMetadata
	}
	m = &metav1.PartialObjectMetadata{}
	m.APIVersion, _ = members.APIVersion.(string)
	m.Kind, _ = members.Kind.(string)
	for name, value := range members.Metadata {
		var fits metav1.ObjectMeta
		member, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err != nil || json.Unmarshal(member, &fits) != nil || json.Unmarshal(member, &m.ObjectMeta) != nil {
			unfit = append(unfit, name)
		}
	}
	slices.Sort(unfit)
	return m, unfit, nil
}
