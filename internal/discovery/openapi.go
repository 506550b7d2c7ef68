package discovery

import (
	"bytes"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
