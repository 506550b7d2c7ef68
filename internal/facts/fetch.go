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

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/codec"
)

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
