package fakeapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
)

// Create stores a new object and returns the stored object, with UID, resourceVersion and creationTimestamp. obj may be
// typed or unstructured, and is not modified. Errors are API errors, as a client receives them.
func (s *storage) Create(gvr schema.GroupVersionResource, obj runtime.Object) (*unstructured.Unstructured, error) {
	k, err := s.kindOf(gvr)
	if err != nil {
		return nil, err
	}
	stored, err := s.create(k, obj, "")
	if err != nil {
		return nil, err
	}
	return stored.unstructured()
}

// Load creates many objects, several times faster than Create, because it does not return them.
func (s *storage) Load(gvr schema.GroupVersionResource, objs ...runtime.Object) error {
	k, err := s.kindOf(gvr)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if _, err := s.create(k, obj, ""); err != nil {
			return err
		}
	}
	return nil
}

// Update replaces the object with the namespace and name of obj. If obj has a resourceVersion, it must equal the stored
// resourceVersion. An update without changes keeps the resourceVersion and causes no event.
func (s *storage) Update(gvr schema.GroupVersionResource, obj runtime.Object) (*unstructured.Unstructured, error) {
	k, err := s.kindOf(gvr)
	if err != nil {
		return nil, err
	}
	stored, err := s.update(k, obj)
	if err != nil {
		return nil, err
	}
	return stored.unstructured()
}

// Replace updates many objects, several times faster than Update, because it does not return them.
func (s *storage) Replace(gvr schema.GroupVersionResource, objs ...runtime.Object) error {
	k, err := s.kindOf(gvr)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if _, err := s.update(k, obj); err != nil {
			return err
		}
	}
	return nil
}

func (s *storage) Delete(gvr schema.GroupVersionResource, namespace, name string) error {
	k, err := s.kindOf(gvr)
	if err != nil {
		return err
	}
	_, err = s.remove(k, namespace, name)
	return err
}

// List returns all objects of the resource in key order.
func (s *storage) List(gvr schema.GroupVersionResource) []unstructured.Unstructured {
	s.mu.Lock()
	var objects []*object
	if t := s.tables[gvr]; t != nil {
		objects = t.ordered()
	}
	s.mu.Unlock()
	out := make([]unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		// The server has encoded the object, so decoding cannot fail.
		if u, err := o.unstructured(); err == nil {
			out = append(out, *u)
		}
	}
	return out
}

func (s *storage) kindOf(gvr schema.GroupVersionResource) (*kind, error) {
	if k := s.kinds[gvr]; k != nil {
		return k, nil
	}
	return nil, apierrors.NewNotFound(gvr.GroupResource(), "")
}

// create stores a new object, in the given namespace if obj has none.
func (s *storage) create(k *kind, obj runtime.Object, namespace string) (*object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	name, namespace, err := nameAndNamespace(k, m, namespace)
	if err != nil {
		return nil, err
	}
	st := stamp{uid: m.GetUID(), created: m.GetCreationTimestamp(), namespace: namespace}
	if st.uid == "" {
		st.uid = uuid.NewUUID()
	}
	if st.created.IsZero() && !k.AsWritten {
		now := metav1.Now()
		st.created = now.Rfc3339Copy()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k.GroupVersionResource]
	if t.objects[k.key(namespace, name)] != nil {
		return nil, apierrors.NewAlreadyExists(k.GroupResource(), name)
	}
	st.rv = s.rv + 1
	o, err := newObject(k, obj, st)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.recordLocked(t, nil, o)
	return o, nil
}

func nameAndNamespace(k *kind, m metav1.Object, namespace string) (string, string, error) {
	name := m.GetName()
	if name == "" {
		return "", "", apierrors.NewInvalid(k.gvk().GroupKind(), "", nil)
	}
	if !k.Namespaced {
		return name, "", nil
	}
	switch own := m.GetNamespace(); {
	case namespace == "" && own == "":
		return "", "", apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case namespace == "":
		namespace = own
	case own != "" && own != namespace:
		return "", "",
			apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return name, namespace, nil
}

func (s *storage) recordLocked(t *table, prev, cur *object) {
	s.rv++
	t.record(newEvent(s.rv, prev, cur), s.history)
}

func (s *storage) update(k *kind, obj runtime.Object) (*object, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.modify(k, m.GetNamespace(), m.GetName(), func(*object) (runtime.Object, error) { return obj, nil })
}

// modify replaces an object by the result of change. modify holds storage.mu during change, so change must not call the
// server.
func (s *storage) modify(
	k *kind, namespace, name string, change func(old *object) (runtime.Object, error),
) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k.GroupVersionResource]
	old := t.objects[k.key(namespace, name)]
	if old == nil {
		return nil, apierrors.NewNotFound(k.GroupResource(), name)
	}
	obj, err := change(old)
	if err != nil {
		return nil, err
	}
	created, err := checkUpdate(old, obj)
	if err != nil {
		return nil, err
	}
	st := stamp{rv: old.rv, uid: old.uid, created: created, namespace: old.namespace}
	same, err := newObject(k, obj, st)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if bytes.Equal(same.raw, old.raw) {
		return old, nil
	}
	st.rv = s.rv + 1
	o, err := newObject(k, obj, st)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.recordLocked(t, old, o)
	return o, nil
}

// errConflict has kube-apiserver's message of a conflict.
var errConflict = errors.New(
	"the object has been modified; please apply your changes to the latest version and try again")

// checkUpdate returns the creation time of the stored object. It fails if the update has another UID or
// resourceVersion.
func checkUpdate(old *object, obj runtime.Object) (metav1.Time, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return metav1.Time{}, apierrors.NewBadRequest(err.Error())
	}
	gr := old.kind.GroupResource()
	if rv := m.GetResourceVersion(); rv != "" && rv != formatRV(old.rv) {
		return metav1.Time{}, apierrors.NewConflict(gr, old.name, errConflict)
	}
	if uid := m.GetUID(); uid != "" && uid != old.uid {
		return metav1.Time{}, apierrors.NewConflict(gr, old.name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.uid))
	}
	if old.kind.AsWritten {
		return metav1.Time{}, nil
	}
	partial, err := old.partial()
	if err != nil {
		return metav1.Time{}, apierrors.NewInternalError(err)
	}
	return partial.CreationTimestamp, nil
}

func (s *storage) remove(k *kind, namespace, name string) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k.GroupVersionResource]
	old := t.objects[k.key(namespace, name)]
	if old == nil {
		return nil, apierrors.NewNotFound(k.GroupResource(), name)
	}
	s.recordLocked(t, old, nil)
	return old, nil
}

// maxBody is kube-apiserver's limit on the size of a request body, in bytes.
const maxBody = 3 << 20

func (s *Server) serveWrite(q *request) error {
	body, err := io.ReadAll(io.LimitReader(q.r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return apierrors.NewRequestEntityTooLargeError("the body is too large, or could not be read")
	}
	switch q.verb {
	case verbDelete:
		last, err := s.remove(q.kind, q.namespace, q.name)
		return q.answerWrite(http.StatusOK, last, err)
	case verbCollection:
		return s.serveDeleteCollection(q)
	case verbPatch:
		o, err := s.modify(q.kind, q.namespace, q.name, func(old *object) (runtime.Object, error) {
			return q.patched(old, body)
		})
		return q.answerWrite(http.StatusOK, o, err)
	}
	obj, err := q.decodeBody(body)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if q.verb == verbCreate {
		o, err := s.create(q.kind, obj, q.namespace)
		return q.answerWrite(http.StatusCreated, o, err)
	}
	if m, err := meta.Accessor(obj); err != nil || m.GetName() != q.name {
		return apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	o, err := s.modify(q.kind, q.namespace, q.name, func(*object) (runtime.Object, error) { return obj, nil })
	return q.answerWrite(http.StatusOK, o, err)
}

func (q *request) answerWrite(code int, o *object, err error) error {
	if err != nil {
		return err
	}
	return q.writeObject(code, o)
}

// serveDeleteCollection deletes the matching objects, each with its own resourceVersion, and answers with their list.
func (s *Server) serveDeleteCollection(q *request) error {
	p, err := s.page(q)
	if err != nil {
		return err
	}
	for _, o := range p.objects {
		if _, err := s.remove(q.kind, o.namespace, o.name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return q.writePage(p)
}

func (q *request) decodeBody(body []byte) (runtime.Object, error) {
	if q.kind.custom() {
		u := &unstructured.Unstructured{}
		return u, u.UnmarshalJSON(body)
	}
	gvk := q.kind.gvk()
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &gvk, nil)
	return obj, err
}

// patched applies a JSON merge patch to old. Without a resourceVersion in the patch, the result has the resourceVersion
// of old, so the patch never conflicts.
func (q *request) patched(old *object, patch []byte) (runtime.Object, error) {
	mediaType, _, _ := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if mediaType != string(types.MergePatchType) {
		return nil, newStatus(http.StatusUnsupportedMediaType, "this patch type is not supported: %s", mediaType)
	}
	stored, err := old.standalone(asJSON)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	content, err := jsonpatch.MergePatch(stored, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(content)
}
