package fakeapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

func (s *Server) serveDiscovery(q *request, parts []string) {
	w, r := q.w, q.r
	counter := s.requestLog.request(schema.GroupVersionResource{}, verbDiscovery, r)
	if conn := connOf(r); conn != nil {
		conn.counter.Store(counter)
	}
	if f := s.faults.take(verbDiscovery, ""); f != nil && f.answer(q) {
		return
	}
	path := strings.Join(parts, "/")
	switch {
	case r.Method != http.MethodGet:
		writeError(w, errNoSuchPath())
	case path == "api":
		writeJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"}})
	case path == "apis":
		writeJSON(w, http.StatusOK, s.groups())
	case path == "version":
		writeJSON(w, http.StatusOK, s.release.info())
	case path == "healthz" || path == "readyz" || path == "livez":
		_, _ = w.Write([]byte("ok"))
	case parts[0] == "openapi":
		s.serveOpenAPI(w, parts)
	default:
		s.serveGroup(w, parts)
	}
}

func (s *Server) serveGroup(w http.ResponseWriter, parts []string) {
	if gv, _, ok := groupVersionOf(parts); ok {
		if list := s.resourceList(gv); len(list.APIResources) > 0 {
			writeJSON(w, http.StatusOK, list)
			return
		}
	}
	if parts[0] == "apis" && len(parts) == 2 {
		for _, group := range s.groups().Groups {
			if group.Name == parts[1] {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				writeJSON(w, http.StatusOK, group)
				return
			}
		}
	}
	writeError(w, errNoSuchPath())
}

func (s *Server) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range s.served() {
		if k.Group == "" {
			continue
		}
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if i < 0 {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group})
			i = len(list.Groups) - 1
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		if g := &list.Groups[i]; !slices.Contains(g.Versions, v) {
			g.Versions = append(g.Versions, v)
			g.PreferredVersion = g.Versions[0]
		}
	}
	return list
}

// resourceList returns the resources of a group-version. Each resource is listed with a status subresource that is not
// served, so that tests notice clients that do not skip subresources.
func (s *Server) resourceList(gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
	}
	for _, k := range s.served() {
		if k.GroupVersion() != gv {
			continue
		}
		r := metav1.APIResource{
			Name: k.GroupVersionResource.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind,
			ShortNames: k.ShortNames, Categories: k.Categories,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		status := metav1.APIResource{
			Name: r.Name + "/status", Namespaced: k.Namespaced, Kind: k.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
		}
		list.APIResources = append(list.APIResources, r, status)
	}
	return list
}

// openapi has the hashes of the OpenAPI schemas. Clients compare the hashes to notice changes.
type openapi struct {
	mu     sync.Mutex
	hashes map[schema.GroupVersion]string
}

// SetOpenAPIHash changes the hash of a group-version's schema in the /openapi/v3 index, as a change of the schema
// would.
func (o *openapi) SetOpenAPIHash(gv schema.GroupVersion, hash string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hashes == nil {
		o.hashes = map[schema.GroupVersion]string{}
	}
	o.hashes[gv] = hash
}

func (o *openapi) hashOf(gv schema.GroupVersion) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if hash := o.hashes[gv]; hash != "" {
		return hash
	}
	return fmt.Sprintf("%064X", len(gv.String()))
}

// serveOpenAPI answers requests for the /openapi/v3 index and for schemas, which contain only their group-version and
// hash.
func (s *Server) serveOpenAPI(w http.ResponseWriter, parts []string) {
	if len(parts) < 2 || parts[1] != "v3" {
		writeError(w, errNoSuchPath())
		return
	}
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for _, k := range s.served() {
		gv := k.GroupVersion()
		path := "apis/" + gv.String()
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		paths[path] = entry{URL: "/openapi/v3/" + path + "?hash=" + s.openapi.hashOf(gv)}
		if path == strings.Join(parts[2:], "/") {
			writeJSON(w, http.StatusOK, map[string]any{"openapi": "3.0.0",
				"info": map[string]string{"title": gv.String(), "version": s.openapi.hashOf(gv)}})
			return
		}
	}
	if len(parts) > 2 {
		writeError(w, errNoSuchPath())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"paths": paths})
}

// availability has the resources and group-versions that the server does not serve.
type availability struct {
	mu      sync.Mutex
	dropped map[schema.GroupVersionResource]bool // resources that SetServed has stopped; mu guards dropped and away
	away    map[schema.GroupVersion]bool         // group-versions that SetAvailable has made unavailable
}

// SetServed starts or stops serving a resource, as when a CustomResourceDefinition stops serving a version. Stopping a
// resource removes it from discovery, ends its open watches, and answers requests for it with 404.
func (s *Server) SetServed(gvr schema.GroupVersionResource, served bool) {
	s.availability.mu.Lock()
	if s.availability.dropped == nil {
		s.availability.dropped = map[schema.GroupVersionResource]bool{}
	}
	s.availability.dropped[gvr] = !served
	s.availability.mu.Unlock()
	if !served {
		s.BreakWatches(gvr, BreakEOF)
	}
}

// SetAvailable makes a group-version available or unavailable, like an aggregated API whose server is down. Discovery
// still lists an unavailable group-version in its group, but all other requests for it get 503. Its open watches end.
func (s *Server) SetAvailable(gv schema.GroupVersion, available bool) {
	s.availability.mu.Lock()
	if s.availability.away == nil {
		s.availability.away = map[schema.GroupVersion]bool{}
	}
	s.availability.away[gv] = !available
	s.availability.mu.Unlock()
	for _, k := range s.resources {
		if !available && k.GroupVersion() == gv {
			s.BreakWatches(k.GroupVersionResource, BreakEOF)
		}
	}
}

func (o *availability) serves(gvr schema.GroupVersionResource) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.dropped[gvr]
}

func (o *availability) available(gv schema.GroupVersion) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.away[gv]
}

func (s *Server) served() []*kind {
	return slices.DeleteFunc(slices.Clone(s.resources), func(k *kind) bool { return !s.serves(k.GroupVersionResource) })
}

func errAway() error {
	return newStatus(http.StatusServiceUnavailable, "service unavailable")
}

// defaultVersion is the gitVersion in /version unless SetVersion was called.
const defaultVersion = "v1.36.3+embedded"

type release struct {
	mu         sync.Mutex
	gitVersion string // the gitVersion of SetVersion, or empty; mu guards gitVersion
}

// SetVersion sets the gitVersion in /version, such as "v1.33.4". Watches refuse sendInitialEvents if the feature gate
// WatchList is off by default in that version. SetVersion has no other effect. A version that cannot be parsed is
// reported unchanged, and supports sendInitialEvents.
func (r *release) SetVersion(gitVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gitVersion = gitVersion
}

func (r *release) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gitVersion == "" {
		return defaultVersion
	}
	return r.gitVersion
}

func (r *release) info() version.Info {
	info := version.Info{GitVersion: r.current(), Platform: "embedded"}
	if v, err := utilversion.ParseGeneric(info.GitVersion); err == nil {
		info.Major, info.Minor = strconv.Itoa(int(v.Major())), strconv.Itoa(int(v.Minor()))
	}
	return info
}

// watchList reports whether the version supports sendInitialEvents by default: 1.32 does, 1.33 does not, and from 1.34
// on all do.
func (r *release) watchList() bool {
	v, err := utilversion.ParseGeneric(r.current())
	if err != nil {
		return true
	}
	return v.AtLeast(utilversion.MajorMinor(1, 34)) || v.Major() == 1 && v.Minor() == 32
}
