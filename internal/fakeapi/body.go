package fakeapi

import (
	"io"
	"mime"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/internal/apistatus"
)

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
		return nil, apistatus.New(http.StatusUnsupportedMediaType, "this patch type is not supported: %s", mediaType)
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
