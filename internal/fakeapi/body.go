package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxBody is the longest body that kube-apiserver reads.
const maxBody = 3 << 20

// serveWrite answers create, update, patch and delete.
func (s *Server) serveWrite(q *request) error {
	body, err := io.ReadAll(io.LimitReader(q.r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return apierrors.NewRequestEntityTooLargeError("the body is too large, or could not be read")
	}
	switch q.verb {
	case verbDelete, verbCollection:
		return s.serveDelete(q, body)
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
	o, err := s.modify(q.kind, q.namespace, q.name, func(old *object) (runtime.Object, error) {
		return q.withSubresource(old, obj)
	})
	return q.answerWrite(http.StatusOK, o, err)
}

func (q *request) answerWrite(code int, o *object, err error) error {
	if err != nil {
		return err
	}
	return q.writeObject(code, o)
}

func (s *Server) serveDelete(q *request, body []byte) error {
	var o metav1.DeleteOptions
	if err := q.decodeInto(body, &o); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if q.verb == verbCollection {
		return s.serveDeleteCollection(q)
	}
	pre := &preconditions{}
	if p := o.Preconditions; p != nil {
		if p.UID != nil {
			pre.uid = *p.UID
		}
		if p.ResourceVersion != nil {
			pre.rv = *p.ResourceVersion
		}
	}
	last, err := s.remove(q.kind, q.namespace, q.name, pre)
	return q.answerWrite(http.StatusOK, last, err)
}

// serveDeleteCollection deletes what the selectors select, each with an RV of its own, and answers with the list.
func (s *Server) serveDeleteCollection(q *request) error {
	p, err := s.page(q)
	if err != nil {
		return err
	}
	for _, o := range p.objects {
		if _, err := s.remove(q.kind, o.namespace, o.name, nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return q.writePage(p)
}

// decodeBody returns the object that a client sent.
func (q *request) decodeBody(body []byte) (runtime.Object, error) {
	if q.kind.custom() {
		u := &unstructured.Unstructured{}
		return u, u.UnmarshalJSON(body)
	}
	obj, ok := reflect.New(q.kind.typ).Interface().(marshaler)
	if !ok {
		return nil, fmt.Errorf("%s cannot be decoded", q.kind.typ)
	}
	return obj, q.decodeInto(body, obj)
}

// decodeInto decodes JSON or protobuf; an empty body leaves into as it is.
func (q *request) decodeInto(body []byte, into interface{ Unmarshal([]byte) error }) error {
	if len(body) == 0 {
		return nil
	}
	mediaType, _, _ := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if mediaType != contentProtobuf {
		return json.Unmarshal(body, into)
	}
	if len(body) < len(protobufMagic) || string(body[:len(protobufMagic)]) != protobufMagic {
		return errors.New("the body is not protobuf of Kubernetes")
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(body[len(protobufMagic):]); err != nil {
		return err
	}
	return into.Unmarshal(envelope.Raw)
}

// withSubresource returns what an update writes: a status update changes only the status, any other all but the status.
func (q *request) withSubresource(old *object, obj runtime.Object) (runtime.Object, error) {
	if q.subresource == "" {
		return obj, nil
	}
	sent, err := toContent(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	stored, err := old.unstructured()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	content := maps.Clone(stored.Object)
	content["status"] = sent["status"]
	updated := &unstructured.Unstructured{Object: content}
	updated.SetResourceVersion((&unstructured.Unstructured{Object: sent}).GetResourceVersion())
	return updated, nil
}

// patched applies a merge patch or a strategic merge patch.
func (q *request) patched(old *object, patch []byte) (runtime.Object, error) {
	stored, err := old.unstructured()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	// A patch that names no RV has no precondition.
	stored.SetResourceVersion("")
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	mediaType, _, _ := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	content := stored.Object
	switch {
	case mediaType == string(types.MergePatchType):
		content = mergePatch(content, change)
	case mediaType == string(types.StrategicMergePatchType) && !q.kind.custom():
		content, err = strategicpatch.StrategicMergeMapPatch(content, change, reflect.New(q.kind.typ).Interface())
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
			Message: "this patch type is not supported: " + mediaType,
		}}
	}
	return q.withSubresource(old, &unstructured.Unstructured{Object: content})
}

// mergePatch is RFC 7386 on maps.
func mergePatch(target, patch map[string]any) map[string]any {
	out := maps.Clone(target)
	if out == nil {
		out = map[string]any{}
	}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		switch value := patch[name].(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			inner, _ := out[name].(map[string]any)
			out[name] = mergePatch(inner, value)
		default:
			out[name] = value
		}
	}
	return out
}
