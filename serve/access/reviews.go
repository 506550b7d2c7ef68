package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reviews answers the questions of clients about themselves, as asked by kubectl auth can-i, kubectl auth whoami, k9s
// and Lens. It is an http.Handler for POST to the paths below, behind NewHandler, with one method for each:
//
//	/apis/authorization.k8s.io/v1/selfsubjectaccessreviews
//	/apis/authorization.k8s.io/v1/selfsubjectrulesreviews
//	/apis/authentication.k8s.io/v1/selfsubjectreviews
//
// The body, of up to 64 KiB, may be JSON, YAML or protobuf. The response has the format that the client accepts.
type Reviews struct {
	Authorizer Authorizer
	// Forwards is true if requests that this server cannot answer are forwarded to the API server. If it is false,
	// verbs other than get, list and watch are denied without asking the Authorizer.
	Forwards bool
}

// ServeHTTP implements http.Handler.
func (v Reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, gv, err := v.answer(r)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	writeObject(w, r, http.StatusCreated, answer, gv)
}

func (v Reviews) answer(r *http.Request) (answer runtime.Object, gv schema.GroupVersion, err error) {
	user, ok := UserFrom(r.Context())
	if !ok {
		return nil, gv, apierrors.NewUnauthorized("Unauthorized")
	}
	parts := strings.Split(r.URL.Path, "/") // parts are "", "apis", group, version, resource
	if len(parts) != 5 || parts[1] != "apis" {
		return nil, gv, genericError(r, http.StatusNotFound)
	}
	if r.Method != http.MethodPost {
		return nil, gv, genericError(r, http.StatusMethodNotAllowed)
	}
	gv = schema.GroupVersion{Group: parts[2], Version: parts[3]}
	switch gv.WithResource(parts[4]) {
	case authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"):
		return create(r, gv.WithKind("SelfSubjectAccessReview"), user, v.SelfSubjectAccessReview)
	case authorizationv1.SchemeGroupVersion.WithResource("selfsubjectrulesreviews"):
		return create(r, gv.WithKind("SelfSubjectRulesReview"), user, v.SelfSubjectRulesReview)
	case authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"):
		return create(r, gv.WithKind("SelfSubjectReview"), user, v.SelfSubjectReview)
	default:
		return nil, gv, genericError(r, http.StatusNotFound)
	}
}

func genericError(r *http.Request, code int) error {
	return apierrors.NewGenericServerResponse(code, r.Method, schema.GroupResource{}, "", "", 0, false)
}

func create[T any, P interface {
	*T
	runtime.Object
}](
	r *http.Request, kind schema.GroupVersionKind, user User, f func(context.Context, User, P) (P, error),
) (runtime.Object, schema.GroupVersion, error) {
	review := P(new(T))
	if err := readObject(r, kind, review); err != nil {
		return nil, kind.GroupVersion(), err
	}
	answer, err := f(r.Context(), user, review)
	return answer, kind.GroupVersion(), err
}

// SelfSubjectAccessReview answers a client's question whether its user may do something. As in API servers, an
// authorizer's error is part of the answer. The returned error is a Status: 422 for an invalid review.
func (v Reviews) SelfSubjectAccessReview(
	ctx context.Context, user User, review *authorizationv1.SelfSubjectAccessReview,
) (*authorizationv1.SelfSubjectAccessReview, error) {
	if errs := validateAccessReview(review); len(errs) > 0 {
		// As in kube-apiserver, the error omits the kind.
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
	}
	answer := review.DeepCopy()
	answer.Status = authorizationv1.SubjectAccessReviewStatus{}
	a := attributesOf(user, answer.Spec)
	if !v.Forwards && !a.reads() {
		answer.Status.Reason = reasonReadOnly
		return answer, nil
	}
	decision, err := v.Authorizer.Authorize(ctx, a)
	if err != nil {
		answer.Status.EvaluationError = statusOf(err).Message
		return answer, nil
	}
	answer.Status.Allowed, answer.Status.Reason = decision.Allowed, decision.Reason
	return answer, nil
}

func attributesOf(user User, spec authorizationv1.SelfSubjectAccessReviewSpec) Attributes {
	if n := spec.NonResourceAttributes; n != nil {
		return Attributes{User: user, Verb: n.Verb, Path: n.Path}
	}
	r := spec.ResourceAttributes
	return Attributes{
		User: user, Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource,
		Namespace: r.Namespace, Name: r.Name, FieldSelector: r.FieldSelector, LabelSelector: r.LabelSelector,
	}
}

// validateAccessReview validates a review as kube-apiserver's ValidateSelfSubjectAccessReview does, except for its
// selectors, which the API server validates.
func validateAccessReview(review *authorizationv1.SelfSubjectAccessReview) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	resource, other := review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes
	switch {
	case resource != nil && other != nil:
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), other,
			"cannot be specified in combination with resourceAttributes"))
	case resource == nil && other == nil:
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), other,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	case other != nil && other.Path == "":
		errs = append(errs, field.Required(spec.Child("nonResourceAttributes", "path"), ""))
	}
	meta := review.ObjectMeta
	meta.ManagedFields = nil
	if !apiequality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta) {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), meta, "must be empty"))
	}
	return errs
}

// SelfSubjectRulesReview returns the user's rights in a namespace. If an API server decides about the rights, the
// answer is marked incomplete, like kube-apiserver's answer with an authorization webhook. An error is a Status: 400
// without a namespace.
func (v Reviews) SelfSubjectRulesReview(
	ctx context.Context, user User, review *authorizationv1.SelfSubjectRulesReview,
) (*authorizationv1.SelfSubjectRulesReview, error) {
	if review.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	rules, err := rulesFor(ctx, v.Authorizer, user, review.Spec.Namespace)
	if err != nil {
		return nil, statusError(err)
	}
	answer := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		// JSON has [] for an empty list, not null.
		ResourceRules:    slices.Clip(append([]authorizationv1.ResourceRule{}, rules.Resources...)),
		NonResourceRules: slices.Clip(append([]authorizationv1.NonResourceRule{}, rules.NonResources...)),
		Incomplete:       rules.Incomplete, EvaluationError: rules.Caveat,
	}}
	return answer, nil
}

// SelfSubjectReview returns the authenticated user.
func (v Reviews) SelfSubjectReview(
	_ context.Context, user User, _ *authenticationv1.SelfSubjectReview,
) (*authenticationv1.SelfSubjectReview, error) {
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: *user.DeepCopy()},
	}, nil
}

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
