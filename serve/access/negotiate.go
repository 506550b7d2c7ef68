package access

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var codecs = newCodecs()

func newCodecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	utilruntime.Must(authenticationv1.AddToScheme(scheme))
	utilruntime.Must(authorizationv1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}

const maxReviewBody = 64 << 10

func readObject(r *http.Request, kind schema.GroupVersionKind, into runtime.Object) error {
	mediaType := runtime.ContentTypeJSON
	if header := r.Header.Get("Content-Type"); header != "" {
		mediaType, _, _ = mime.ParseMediaType(header) // mediaType is "", which is not supported, for an invalid header
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok || mediaType == "" {
		return unsupportedMediaType()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReviewBody+1))
	var large *http.MaxBytesError
	switch {
	case len(body) > maxReviewBody, errors.As(err, &large):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxReviewBody))
	case err != nil:
		return apierrors.NewBadRequest("the request's body could not be read")
	}
	_, got, err := info.Serializer.Decode(body, &kind, into)
	if err != nil || *got != kind {
		return apierrors.NewBadRequest(fmt.Sprintf("the request's body is no %s of %s", kind.Kind, kind.GroupVersion()))
	}
	return nil
}

func unsupportedMediaType() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " +
			strings.Join(mediaTypes(), ", "),
	}}
}

func mediaTypes() (all []string) {
	for _, info := range codecs.SupportedMediaTypes() {
		all = append(all, info.MediaType)
	}
	return all
}

// writeObject writes an object in the format that the client accepts, as kube-apiserver does. The default is JSON,
// which is indented for browsers and command-line tools.
func writeObject(w http.ResponseWriter, r *http.Request, code int, object runtime.Object, gv schema.GroupVersion) {
	info, ok := negotiate(r)
	if !ok {
		info, _ = runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
		if code < http.StatusBadRequest { // only a review fails with 406; errors are sent as JSON
			code, gv = http.StatusNotAcceptable, schema.GroupVersion{Version: "v1"}
			object = &metav1.Status{
				Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonNotAcceptable,
				Message: "only the following media types are accepted: " + strings.Join(mediaTypes(), ", "),
			}
		}
	}
	encoder := info.Serializer
	if info.PrettySerializer != nil && (!ok || pretty(r)) {
		encoder = info.PrettySerializer
	}
	body, err := runtime.Encode(codecs.EncoderForVersion(encoder, gv), object)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", info.MediaType)
	h.Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(body) // Write fails if the client has disconnected
}

func negotiate(r *http.Request) (info runtime.SerializerInfo, ok bool) {
	supported := codecs.SupportedMediaTypes()
	header := r.Header.Get("Accept")
	if header == "" {
		return supported[0], true
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		if clause.Params["as"] != "" || clause.Params["g"] != "" || clause.Params["v"] != "" {
			continue // errors and reviews have no Table form
		}
		if clause.SubType == "yaml" && clause.Params["stream"] != "" {
			continue // YAML has no stream form
		}
		for _, info := range supported {
			major, minor := info.MediaTypeType, info.MediaTypeSubType
			if (clause.Type == major || clause.Type == "*") && (clause.SubType == minor || clause.SubType == "*") {
				return info, true
			}
		}
	}
	return info, false
}

// pretty reports whether a JSON response should be indented, because a person reads it.
func pretty(r *http.Request) bool {
	if p := r.URL.Query().Get("pretty"); p != "" {
		yes, _ := strconv.ParseBool(p)
		return yes
	}
	agent := r.UserAgent()
	for _, prefix := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(agent, prefix) {
			return true
		}
	}
	return false
}
