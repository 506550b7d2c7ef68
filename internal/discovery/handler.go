package discovery

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/larder-dev/larder/internal/facts"
)

// Options are the options of New. The zero value works.
type Options struct {
	Server facts.Server
	// OpenAPI returns the OpenAPI schema of a group-version in Server.Schemas, as JSON, and the schema's hash. The schema
	// is nil if it is no longer stored. An error of type apierrors.APIStatus is sent to the client. By default there are
	// no schemas.
	OpenAPI func(ctx context.Context, gv schema.GroupVersion) (document []byte, hash string, err error)
	// NotFound answers requests for unknown paths. Default: a 404 like an API server's.
	NotFound http.Handler
}

// Handler is the HTTP handler of the discovery paths: /api, /apis, /version and /openapi/v3.
type Handler struct {
	o       Options
	groups  []group
	omitted []schema.GroupVersionResource
	// etags holds the ETags of the aggregated documents. Key true is /api; key false is /apis.
	etags map[bool]string
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler for the discovery of the given resources. A resource that is given several times, such as the
// collections of several namespaces, is listed once.
func New(resources []Resource, o Options) *Handler {
	h := &Handler{o: o, etags: map[bool]string{}}
	if h.o.NotFound == nil {
		h.o.NotFound = http.HandlerFunc(h.notFound)
	}
	all, omitted := named(resources, o.Server.Discovery)
	h.groups, h.omitted = grouped(all, o.Server.Discovery), omitted
	for _, core := range []bool{true, false} {
		// Marshalling discovery documents cannot fail.
		text, _ := json.Marshal(h.aggregated(core))
		h.etags[core] = strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(text)))
	}
	return h
}

// Omitted returns the resources that are missing from discovery because their Kind is unknown. The caller must not
// modify the slice.
func (h *Handler) Omitted() []schema.GroupVersionResource { return h.omitted }

// IsPath reports whether a URL path belongs to discovery. A Handler answers all these paths, unknown ones with 404.
func IsPath(path string) bool {
	parts := split(path)
	switch parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	case "version":
		return len(parts) == 1
	}
	return parts[0] == "openapi"
}

func split(path string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache, private")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeStatus(w, metav1.Status{Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: "the server does not allow this method on the requested resource"})
		return
	}
	parts := split(r.URL.Path)
	switch at := strings.Join(parts, "/"); {
	case at == "api" || at == "apis":
		h.root(w, r, at == "api")
	case at == "version":
		h.version(w, r)
	case at == "openapi/v3":
		h.index(w, r)
	case strings.HasPrefix(at, "openapi/v3/"):
		h.schema(w, r, strings.TrimPrefix(at, "openapi/v3/"))
	default:
		h.part(w, r, parts)
	}
}

// Complete reports whether a Handler knows enough about the API server to answer a request for the path as that server
// would.
func (h *Handler) Complete(path string) bool {
	parts := split(path)
	switch at := strings.Join(parts, "/"); {
	case at == "version":
		return h.o.Server.Version != nil
	case h.o.Server.Discovery == nil:
		return false
	case at == "api" || at == "apis":
		return true
	case at == "openapi/v3":
		n := 0
		for _, g := range h.groups {
			n += len(g.versions)
		}
		return len(h.schemas()) == n
	case parts[0] == "openapi":
		_, known := h.schemas()[strings.TrimPrefix(at, "openapi/v3/")]
		return known
	}
	return h.find(parts) != nil
}

func (h *Handler) root(w http.ResponseWriter, r *http.Request, core bool) {
	accepted, ok := negotiate(r, true)
	switch {
	case !ok:
		notAcceptable(w, names())
	case accepted.aggregated:
		w.Header().Set("ETag", h.etags[core])
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public")
		if r.Header.Get("If-None-Match") == h.etags[core] {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		accepted.MediaType += fmt.Sprintf(";g=%s;v=%s;as=%s", aggregatedKind.Group, aggregatedKind.Version,
			aggregatedKind.Kind)
		write(w, accepted, h.aggregated(core))
	case core:
		write(w, accepted, h.versions(r.Host))
	default:
		write(w, accepted, h.list())
	}
}

func (h *Handler) part(w http.ResponseWriter, r *http.Request, path []string) {
	document := h.find(path)
	if document == nil {
		h.o.NotFound.ServeHTTP(w, r)
		return
	}
	accepted, ok := negotiate(r, false)
	if !ok {
		notAcceptable(w, names())
		return
	}
	write(w, accepted, document)
}

func (h *Handler) find(path []string) runtime.Object {
	var name, version string
	switch {
	case path[0] == "api" && len(path) == 2:
		version = path[1]
	case path[0] == "apis" && len(path) == 2:
		name = path[1]
	case path[0] == "apis" && len(path) == 3:
		name, version = path[1], path[2]
	default:
		return nil
	}
	if path[0] == "apis" && name == "" {
		return nil
	}
	for _, g := range h.groups {
		if g.name != name {
			continue
		}
		if version == "" {
			return g.alone()
		}
		for _, v := range g.versions {
			if v.Version == version {
				return v.document()
			}
		}
	}
	return nil
}

// notFound answers a request for an unknown path as kube-apiserver does: with a Status if the path is a version of /api
// or of a known group, otherwise with plain text.
func (h *Handler) notFound(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.Path)
	isVersion := parts[0] == "api" && len(parts) == 2 || parts[0] == "apis" && len(parts) == 3 && h.find(parts[:2]) != nil
	if !isVersion {
		http.NotFound(w, r)
		return
	}
	writeStatus(w, metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource"})
}

func (h *Handler) version(w http.ResponseWriter, r *http.Request) {
	if accept := r.Header.Get("Accept"); accept != "" {
		if !accepts(accept, runtime.ContentTypeJSON) {
			notAcceptable(w, runtime.ContentTypeJSON)
			return
		}
	}
	v := h.o.Server.Version
	if v == nil {
		v = facts.VersionOf("v0.0.0-unknown")
	}
	text, _ := json.MarshalIndent(v, "", "  ") // marshalling strings cannot fail
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	_, _ = w.Write(text)
}

// write sends a document in the media type that the client accepts. The caller must have set the document's TypeMeta.
func write(w http.ResponseWriter, as accepted, document runtime.Object) {
	var body bytes.Buffer
	if err := as.Serializer.Encode(document, &body); err != nil {
		writeStatus(w, metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: err.Error()})
		return
	}
	w.Header().Set("Content-Type", as.MediaType)
	_, _ = w.Write(body.Bytes()) // a write error means that the client has closed the connection
}

func notAcceptable(w http.ResponseWriter, accepted string) {
	writeStatus(w, metav1.Status{Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + accepted})
}

func writeStatus(w http.ResponseWriter, s metav1.Status) {
	s.Kind, s.APIVersion, s.Status = "Status", "v1", metav1.StatusFailure
	s.Details = &metav1.StatusDetails{}
	text, _ := json.Marshal(s) // marshalling strings cannot fail
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(text)
}

var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

var mediaTypes = newMediaTypes()

func newMediaTypes() []runtime.SerializerInfo {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	if err := apidiscoveryv2.AddToScheme(s); err != nil {
		panic(err) // can only happen with a version of Kubernetes' libraries whose scheme lacks the type
	}
	return serializer.NewCodecFactory(s).SupportedMediaTypes()
}

type accepted struct {
	runtime.SerializerInfo
	// aggregated is true if the client accepts an APIGroupDiscoveryList, the aggregated discovery document.
	aggregated bool
}

// negotiate returns the first supported media type in the Accept header, as package negotiation of k8s.io/apiserver
// does. It returns false if no media type is supported. mayAggregate is true if the path has an aggregated document.
func negotiate(r *http.Request, mayAggregate bool) (accepted, bool) {
	a, ok := match(r.Header.Get("Accept"), mayAggregate)
	if ok && a.PrettySerializer != nil && isPretty(r) {
		a.Serializer = a.PrettySerializer
	}
	return a, ok
}

func match(accept string, mayAggregate bool) (accepted, bool) {
	if accept == "" {
		return accepted{SerializerInfo: mediaTypes[0]}, true
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, has := range mediaTypes {
			isType := clause.Type == has.MediaTypeType && (clause.SubType == has.MediaTypeSubType || clause.SubType == "*")
			if !isType && (clause.Type != "*" || clause.SubType != "*") {
				continue
			}
			p := clause.Params
			asked := schema.GroupVersionKind{Group: p["g"], Version: p["v"], Kind: p["as"]}
			switch {
			case p["stream"] != "" && p["stream"] != "watch", p["sv"] != "":
				continue
			case asked.Empty():
			case !mayAggregate || asked != aggregatedKind:
				continue
			}
			if p["pretty"] == "1" && has.PrettySerializer != nil {
				has.Serializer = has.PrettySerializer
			}
			return accepted{has, !asked.Empty()}, true
		}
	}
	return accepted{}, false
}

// isPretty reports whether the answer is to be indented, because a person is likely to read it.
func isPretty(r *http.Request) bool {
	if asked := r.URL.Query().Get("pretty"); asked != "" {
		pretty, _ := strconv.ParseBool(asked)
		return pretty
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func names() string {
	var all []string
	for _, m := range mediaTypes {
		all = append(all, m.MediaType)
	}
	return strings.Join(all, ", ")
}

func (h *Handler) schemas() map[string]schema.GroupVersion {
	all := map[string]schema.GroupVersion{}
	if h.o.OpenAPI == nil {
		return all
	}
	for _, g := range h.groups {
		for _, v := range g.versions {
			if _, ok := h.o.Server.Schemas[v.GroupVersion]; !ok {
				continue
			}
			if g.name == "" {
				all["api/"+v.Version] = v.GroupVersion
			} else {
				all["apis/"+g.name+"/"+v.Version] = v.GroupVersion
			}
		}
	}
	return all
}

func schemaURL(path, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

func (h *Handler) index(w http.ResponseWriter, r *http.Request) {
	type item struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := map[string]item{}
	for path, gv := range h.schemas() {
		paths[path] = item{schemaURL(path, h.o.Server.Schemas[gv])}
	}
	text, _ := json.Marshal(map[string]any{"paths": paths}) // marshalling strings cannot fail
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.Header().Set("ETag", strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(text))))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

func (h *Handler) schema(w http.ResponseWriter, r *http.Request, path string) {
	gv, ok := h.schemas()[path]
	if !ok {
		h.o.NotFound.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Vary", "Accept")
	if accept := r.Header.Get("Accept"); accept != "" && !accepts(accept, runtime.ContentTypeJSON) {
		notAcceptable(w, runtime.ContentTypeJSON)
		return
	}
	document, hash, err := h.o.OpenAPI(r.Context(), gv)
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		s := known.Status()
		if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
		}
		writeStatus(w, s)
		return
	case err != nil:
		writeStatus(w, metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("the stored OpenAPI schema of %s cannot be read: %v", gv, err)})
		return
	case document == nil:
		h.o.NotFound.ServeHTTP(w, r)
		return
	}
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != hash {
			http.Redirect(w, r, schemaURL(path, hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(http.TimeFormat))
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.Header().Set("ETag", strconv.Quote(hash))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(document))
}

func accepts(accept, mediaType string) bool {
	kind, sub, _ := strings.Cut(mediaType, "/")
	for _, clause := range goautoneg.ParseAccept(accept) {
		if (clause.Type == kind || clause.Type == "*") && (clause.SubType == sub || clause.SubType == "*") {
			return true
		}
	}
	return false
}
