package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/codec"
)

const (
	discoveryDocument = "discovery"
	// discoveryVersion is the version of the JSON of a stored Discovery. Increment it when the meaning of a field changes.
	// Discoveries of other versions are not read.
	discoveryVersion = 2
)

// Discovery is the input of a RESTMapper: a server's groups, in the server's order, and all its resources, each
// followed by its subresources. It is stored as JSON. Discoveries stored by earlier builds lack short names,
// categories, verbs and subresources.
type Discovery struct {
	Version int `json:"version"`
	// Fetched is when the server answered the discovery request; zero if it has not answered.
	Fetched time.Time                       `json:"fetched"`
	Groups  []*restmapper.APIGroupResources `json:"groups"`
	// ETags are the ETags of the server's aggregated documents, by path. A Discovery without all of the server's groups
	// has no ETags.
	ETags       map[string]string `json:"etags,omitempty"`
	Unavailable []string          `json:"unavailable,omitempty"`
}

// DiscoveryDocument returns the bytes of the stored discovery, which ReadDiscovery decodes; nil if none is stored.
func DiscoveryDocument(ctx context.Context, d Documents) ([]byte, error) {
	return d.Document(ctx, discoveryDocument)
}

// ReadDiscovery returns the stored discovery of the server; nil if none is stored.
func ReadDiscovery(ctx context.Context, d Documents) (*Discovery, error) {
	data, err := DiscoveryDocument(ctx, d)
	if err != nil || data == nil {
		return nil, err
	}
	read, err := decodeDiscovery(data)
	if err != nil {
		return nil, err
	}
	return &read, nil
}

// maxDiscovery is the maximum memory in bytes that decoding a stored discovery may take (codec.JSONWeight). It suffices
// for 30,000 resources.
const maxDiscovery = 32 << 20

func decodeDiscovery(data []byte) (d Discovery, err error) {
	if w := codec.JSONWeight(data); w > maxDiscovery {
		return d, fmt.Errorf("document %q takes about %d MiB to decode, and may take %d MiB", discoveryDocument, w>>20,
			maxDiscovery>>20)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("document %q cannot be read: %w", discoveryDocument, err)
	}
	if d.Version != discoveryVersion {
		return d, fmt.Errorf("document %q is of version %d, and this program reads %d", discoveryDocument, d.Version,
			discoveryVersion)
	}
	return d, nil
}

func (d Discovery) encode() ([]byte, error) { return json.Marshal(d) }

// Put stores the discovery as a document of st.
func (d Discovery) Put(ctx context.Context, st Store) error {
	data, err := d.encode()
	if err != nil {
		return err
	}
	return st.PutDocument(ctx, discoveryDocument, data)
}

// Equal reports whether both discoveries have the same groups and resources.
func (d Discovery) Equal(other Discovery) bool {
	return equality.Semantic.DeepEqual(d.Groups, other.Groups)
}

// Has reports whether the server serves the group-version.
func (d *Discovery) Has(gv schema.GroupVersion) bool {
	if d == nil {
		return false
	}
	return slices.ContainsFunc(d.Groups, func(g *restmapper.APIGroupResources) bool {
		return g.Group.Name == gv.Group && g.VersionedResources[gv.Version] != nil
	})
}

// Resource returns a resource of the server, and whether the server has it.
func (d *Discovery) Resource(gvr schema.GroupVersionResource) (metav1.APIResource, bool) {
	if d == nil {
		return metav1.APIResource{}, false
	}
	for _, g := range d.Groups {
		if g.Group.Name != gvr.Group {
			continue
		}
		for _, r := range g.VersionedResources[gvr.Version] {
			if r.Name == gvr.Resource {
				return r, true
			}
		}
	}
	return metav1.APIResource{}, false
}

// Retired reports whether the server serves a resource only in other versions: its group has the resource, but not in
// the version of gvr.
func (d *Discovery) Retired(gvr schema.GroupVersionResource) bool {
	if _, served := d.Resource(gvr); d == nil || served {
		return false
	}
	for _, g := range d.Groups {
		for version := range g.VersionedResources {
			other := schema.GroupVersionResource{Group: gvr.Group, Version: version, Resource: gvr.Resource}
			if _, has := d.Resource(other); has && g.Group.Name == gvr.Group {
				return true
			}
		}
	}
	return false
}

// DiscoveryOf converts the server's discovery response to a Discovery.
func DiscoveryOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) Discovery {
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = mapped(list.APIResources)
	}
	d := Discovery{Version: discoveryVersion, Fetched: now()}
	for _, g := range groups {
		of := &restmapper.APIGroupResources{Group: *g, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range g.Versions {
			if has, ok := resources[v.GroupVersion]; ok {
				of.VersionedResources[v.Version] = has
			}
		}
		d.Groups = append(d.Groups, of)
	}
	return d
}

func now() time.Time { return time.Now().UTC().Round(0) }

// Keep copies from an earlier discovery the resources of the group-versions in failed, which the server cannot describe
// now. A preferred version stays preferred.
func (d Discovery) Keep(before Discovery, failed map[schema.GroupVersion]error) {
	for _, old := range before.Groups {
		i := slices.IndexFunc(d.Groups, func(g *restmapper.APIGroupResources) bool {
			return g.Group.Name == old.Group.Name
		})
		for _, v := range old.Group.Versions {
			_, ok := failed[schema.GroupVersion{Group: old.Group.Name, Version: v.Version}]
			if !ok || i < 0 {
				continue
			}
			g := d.Groups[i]
			g.VersionedResources[v.Version] = old.VersionedResources[v.Version]
			if !slices.Contains(g.Group.Versions, v) {
				g.Group.Versions = append(g.Group.Versions, v)
			}
			if v == old.Group.PreferredVersion {
				g.Group.PreferredVersion = v
			}
		}
	}
}

// of returns the part of the discovery with the groups of the given group-versions, in all versions.
func (d Discovery) of(gvs []schema.GroupVersion) Discovery {
	d.ETags = nil
	d.Groups = slices.DeleteFunc(slices.Clone(d.Groups), func(g *restmapper.APIGroupResources) bool {
		return !slices.ContainsFunc(gvs, func(gv schema.GroupVersion) bool { return gv.Group == g.Group.Name })
	})
	return d
}

func mapped(all []metav1.APIResource) (resources []metav1.APIResource) {
	for _, r := range all {
		kept := metav1.APIResource{
			Name: r.Name, SingularName: r.SingularName, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories,
		}
		if strings.Contains(r.Name, "/") { // a subresource often has the kind of another resource
			kept.SingularName, kept.Group, kept.Version = "", r.Group, r.Version
		}
		resources = append(resources, kept)
	}
	slices.SortStableFunc(resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}

var errUnavailable = errors.New("the API server that has it is not available")

// FetchDiscovery requests the server's groups and resources. known is an earlier result, or nil; the server does not
// send its unchanged documents again.
//
// If an aggregated API server is down, kube-apiserver names its group-versions but cannot describe them. The result has
// their resources from known. It is valid, and a *discovery.ErrGroupDiscoveryFailed names these group-versions. After
// any other error the result is invalid.
func FetchDiscovery(ctx context.Context, client rest.Interface, known *Discovery) (Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if c, ok := client.(*rest.RESTClient); ok && c.Client != nil {
		d, err := fetchAggregated(ctx, c, known)
		if !errors.Is(err, errNotAggregated) {
			return d, cmp.Or(err, d.unavailable())
		}
	}
	groups, lists, err := discovery.NewDiscoveryClient(client).ServerGroupsAndResourcesWithContext(ctx)
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	switch {
	case len(lists) == 0 && err != nil:
		return Discovery{}, err
	case len(lists) == 0:
		return Discovery{}, errors.New("the server says that it has no resources")
	}
	d := DiscoveryOf(groups, lists)
	d.keepFailed(known, failed)
	return d, err
}

// keepFailed copies from known the resources of the group-versions that the server failed to describe, and lists these
// group-versions in Unavailable.
func (d *Discovery) keepFailed(known *Discovery, failed map[schema.GroupVersion]error) {
	if known != nil {
		d.Keep(*known, failed)
	}
	d.Unavailable = nil
	for gv := range failed {
		d.Unavailable = append(d.Unavailable, gv.String())
	}
	slices.Sort(d.Unavailable)
}

func (d *Discovery) unavailable() error {
	if len(d.Unavailable) == 0 {
		return nil
	}
	failed := map[schema.GroupVersion]error{}
	for _, name := range d.Unavailable {
		if gv, err := schema.ParseGroupVersion(name); err == nil {
			failed[gv] = errUnavailable
		}
	}
	return &discovery.ErrGroupDiscoveryFailed{Groups: failed}
}

// errNotAggregated says that the server sends no aggregated discovery documents: it is older than Kubernetes 1.30, or
// rejects the requests.
var errNotAggregated = errors.New("the server's discovery is not aggregated")

// aggregatedPaths are the paths of the two aggregated discovery documents: one for the core group and one for all other
// groups.
var aggregatedPaths = []string{"/api", "/apis"}

func fetchAggregated(ctx context.Context, c *rest.RESTClient, known *Discovery) (Discovery, error) {
	d := Discovery{Version: discoveryVersion, Fetched: now(), ETags: map[string]string{}}
	failed := map[schema.GroupVersion]error{}
	for _, path := range aggregatedPaths {
		etag := ""
		if known != nil {
			etag = known.ETags[path]
		}
		list, answered, err := getAggregated(ctx, c, path, etag)
		switch {
		case err != nil:
			return d, err
		case list == nil:
			d.ETags[path] = etag
			d.Groups = append(d.Groups, known.below(path)...)
			for _, name := range known.Unavailable {
				if gv, err := schema.ParseGroupVersion(name); err == nil && pathAbove(gv.Group) == path {
					failed[gv] = errUnavailable
				}
			}
		default:
			d.ETags[path] = answered
			groups, resources, stale := discovery.SplitGroupsAndResources(*list)
			part := DiscoveryOf(pointers(groups.Groups), lists(resources))
			d.Groups = append(d.Groups, part.Groups...)
			for gv := range stale {
				failed[gv] = errUnavailable
			}
		}
	}
	if len(d.Groups) == 0 {
		return d, errors.New("the server says that it has no resources")
	}
	d.keepFailed(known, failed)
	return d, nil
}

// getAggregated returns the aggregated discovery document at path and its ETag. The document is nil if the server
// answers 304 to the given ETag.
func getAggregated(
	ctx context.Context, c *rest.RESTClient, path, etag string,
) (*apidiscoveryv2.APIGroupDiscoveryList, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Get().AbsPath(path).URL().String(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Accept", discovery.AcceptV2+",application/json")
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	answer, err := c.Client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode == http.StatusNotModified && etag != "":
		return nil, etag, nil
	case answer.StatusCode != http.StatusOK || !strings.Contains(answer.Header.Get("Content-Type"), aggregatedKind):
		return nil, "", errNotAggregated
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxDiscovery))
	if err != nil {
		return nil, "", err
	}
	if w := codec.JSONWeight(data); w > maxDiscovery {
		return nil, "", fmt.Errorf("the server's answer to GET %s takes about %d MiB to decode, and may take %d MiB", path,
			w>>20, maxDiscovery>>20)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, "", fmt.Errorf("the server's answer to GET %s cannot be read: %w", path, err)
	}
	return &list, answer.Header.Get("ETag"), nil
}

// aggregatedKind occurs in the Content-Type of an aggregated discovery document.
const aggregatedKind = "as=APIGroupDiscoveryList"

// below returns the groups that the aggregated discovery document at path, /api or /apis, contains.
func (d *Discovery) below(path string) (all []*restmapper.APIGroupResources) {
	for _, g := range d.Groups {
		if pathAbove(g.Group.Name) == path {
			all = append(all, g)
		}
	}
	return all
}

// pathAbove returns the path of the aggregated discovery document, /api or /apis, that contains a group.
func pathAbove(group string) string {
	if group == "" {
		return aggregatedPaths[0]
	}
	return aggregatedPaths[1]
}

func pointers(groups []metav1.APIGroup) (all []*metav1.APIGroup) {
	for i := range groups {
		all = append(all, &groups[i])
	}
	return all
}

func lists(resources map[schema.GroupVersion]*metav1.APIResourceList) (all []*metav1.APIResourceList) {
	for _, list := range resources {
		all = append(all, list)
	}
	return all
}

// Order is the order in which kubectl chooses among resources of the same name: the core group first, then the groups
// in the server's order, the preferred version of each group before all others. Groups and versions that the server
// does not list follow. The zero value is the order of an unknown server.
type Order struct {
	// group and version hold the positions of groups and group-versions in the server's lists, starting at 1. A missing
	// entry is not in the lists.
	group   map[string]int
	version map[schema.GroupVersion]int
}

// Order returns the order in which the server lists its groups and versions. A nil Discovery is an unknown server.
func (d *Discovery) Order() Order {
	o := Order{group: map[string]int{}, version: map[schema.GroupVersion]int{}}
	if d == nil {
		return o
	}
	for i, g := range d.Groups {
		o.group[g.Group.Name] = i + 1
		versions := append([]metav1.GroupVersionForDiscovery{g.Group.PreferredVersion}, g.Group.Versions...)
		for j, v := range versions {
			gv := schema.GroupVersion{Group: g.Group.Name, Version: v.Version}
			if o.version[gv] == 0 {
				o.version[gv] = j + 1
			}
		}
	}
	return o
}

// Groups compares two groups by their order, for sorting.
func (o Order) Groups(a, b string) int {
	if a == b {
		return 0
	}
	if a == "" || b == "" {
		return len(a) - len(b)
	}
	if o.group[a] != o.group[b] {
		return ranked(o.group[a], o.group[b])
	}
	return cmp.Or(usualRank(a)-usualRank(b), strings.Compare(a, b))
}

// Versions compares two versions of one group by their order, for sorting.
func (o Order) Versions(a, b schema.GroupVersion) int {
	if o.version[a] != o.version[b] {
		return ranked(o.version[a], o.version[b])
	}
	return -version.CompareKubeAwareVersionStrings(a.Version, b.Version)
}

// Resources compares resources of the same name. A resource in the preferred version of a group precedes all others.
func (o Order) Resources(a, b schema.GroupVersionResource) int {
	return cmp.Or(o.tier(a.GroupVersion())-o.tier(b.GroupVersion()), o.Groups(a.Group, b.Group),
		o.Versions(a.GroupVersion(), b.GroupVersion()))
}

// tier returns 0 for core/v1, 1 for preferred versions, 2 for other versions, and 3 for groups that the server does not
// list.
func (o Order) tier(gv schema.GroupVersion) int {
	switch {
	case gv == schema.GroupVersion{Version: "v1"}:
		return 0
	case o.version[gv] == 1:
		return 1
	case o.group[gv.Group] > 0:
		return 2
	}
	return 3
}

// ranked compares two positions in a server's list. Position 0 means not in the list, and follows all others.
func ranked(a, b int) int {
	switch {
	case a == 0:
		return 1
	case b == 0:
		return -1
	}
	return a - b
}

// usualRank returns the usual position of a group in kube-apiserver's order: first Kubernetes' own groups, then groups
// of CustomResourceDefinitions, then the groups of metrics, which are aggregated.
func usualRank(group string) int {
	switch {
	case !strings.Contains(group, "."):
		return 0
	case strings.HasSuffix(group, "metrics.k8s.io"):
		return 3
	case strings.Count(group, ".") == 2 && strings.HasSuffix(group, ".k8s.io"):
		return 1
	}
	return 2
}
