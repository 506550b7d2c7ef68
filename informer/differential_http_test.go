package informer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/requests"
)

// listWatch returns a ListerWatcher that sends HTTP requests over a connection in memory. The front answers them in
// contentType.
func (f *front) listWatch(contentType string) (cache.ListerWatcher, error) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	codec := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	c := &rest.Config{Host: "http://server.invalid", Transport: &frontHTTP{f, contentType, codec}, QPS: -1}
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.NegotiatedSerializer, c.ContentType = scheme.Codecs.WithoutConversion(), contentType
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, err
	}
	lw := requests.ListWatch(client, podsIdentity)
	return wholeObjects{lw.ListWatch, lw}, nil
}

// wholeObjects is a ListerWatcher that exposes its requests but cannot list metadata. With metadata, an error of a
// refused metadata request would not reach the watch error handler, unlike with client-go.
type wholeObjects struct {
	*cache.ListWatch
	lw *requests.RESTListWatch
}

func (w wholeObjects) Request(o metav1.ListOptions) *rest.Request { return w.lw.Request(o) }

type frontHTTP struct {
	f           *front
	contentType string
	encoder     runtime.Encoder
}

func (h *frontHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	var o metav1.ListOptions
	if err := scheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, &o); err != nil {
		return nil, err
	}
	if !o.Watch {
		list, err := h.f.ListWithContext(r.Context(), o)
		if err != nil {
			return h.failed(r, err)
		}
		return h.answer(r, http.StatusOK, list)
	}
	w, err := h.f.WatchWithContext(r.Context(), o)
	if err != nil {
		return h.failed(r, err)
	}
	from, to := io.Pipe()
	go h.stream(r.Context(), w.(*diffStream), to)
	return h.response(r, http.StatusOK, from), nil
}

// failed answers a request with the status of the error. For an error without a status it breaks the connection.
func (h *frontHTTP) failed(r *http.Request, err error) (*http.Response, error) {
	answered, ok := err.(apierrors.APIStatus)
	if !ok {
		return nil, err
	}
	status := answered.Status()
	return h.answer(r, int(status.Code), &status)
}

func (h *frontHTTP) answer(r *http.Request, code int, obj runtime.Object) (*http.Response, error) {
	raw, err := runtime.Encode(h.encoder, obj)
	if err != nil {
		return nil, err
	}
	return h.response(r, code, io.NopCloser(bytes.NewReader(raw))), nil
}

func (h *frontHTTP) response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {h.contentType}}, Body: body, Request: r,
	}
}

func (h *frontHTTP) stream(ctx context.Context, w *diffStream, to *io.PipeWriter) {
	defer w.Stop()
	defer context.AfterFunc(ctx, w.Stop)()
	for ev := range w.ResultChan() {
		frame, err := h.frame(ev)
		if err == nil {
			_, err = to.Write(frame)
		}
		if err != nil {
			_ = to.CloseWithError(err)
			return
		}
	}
	select {
	case <-w.done:
		_ = to.CloseWithError(syscall.ECONNRESET)
	default:
		_ = to.Close()
	}
}

func (h *frontHTTP) frame(ev watch.Event) ([]byte, error) {
	raw, err := runtime.Encode(h.encoder, ev.Object)
	if err != nil {
		return nil, err
	}
	e := &metav1.WatchEvent{Type: string(ev.Type), Object: runtime.RawExtension{Raw: raw}}
	if h.contentType == runtime.ContentTypeJSON {
		return runtime.Encode(h.encoder, e)
	}
	msg, err := e.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...), err //nolint:gosec // msg is short
}
