package contract

import (
	"math/rand/v2"
	"os"
)

const (
	table         = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partial       = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	partials      = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	protoPartial  = protobuf + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	protoPartials = protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	// These are Accept headers: kubectlGet is sent by kubectl get, typed by client-go's typed clients, and metadataOne
	// and metadataList by client-go's metadata client for one object and for a list.
	kubectlGet    = table + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	typed         = protobuf + ",application/json"
	metadataOne   = protoPartial + "," + partial + ",application/json"
	metadataList  = protoPartials + "," + partials + ",application/json"
	aggregated    = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	aggregatedOld = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)

// formats are the media types that the tests request for every kind: list for a collection, one for a single object.
var formats = []struct{ list, one string }{
	{"application/json", "application/json"},
	{"application/yaml", "application/yaml"},
	{protobuf, protobuf},
	{typed, typed},
	{table, table},
	{kubectlGet, kubectlGet},
	{partials, partial},
	{protoPartials, protoPartial},
	{metadataList, metadataOne},
	{"*/*", "*/*"},
}

// odd are rare or malformed Accept headers. The tests send them for one built-in and one custom kind.
var odd = []string{
	"", "application/*", "text/*", "text/html", "text/html,*/*", "text/yaml", "application/cbor", "garbage", "application",
	"application/json;charset=utf-8", "application/json;pretty=1", "application/json;stream=watch",
	protobuf + ";stream=watch", "application/yaml;stream=watch", "application/json;q=0.1,application/yaml;q=0.9",
	"application/yaml;as=Table;v=v1;g=meta.k8s.io", protobuf + ";as=Table;v=v1;g=meta.k8s.io",
	"application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v2;g=meta.k8s.io",
	"application/json;as=Table", "application/json;as=table;v=v1;g=meta.k8s.io",
	"application/json;as=Nope;v=v1;g=meta.k8s.io",
	"application/json;as=Nope;v=v1;g=meta.k8s.io,application/json", "application/json;as=", "application/json;v=v1",
	"application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
	"application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", partial + "," + partials, partial, partials,
	protoPartial, protoPartials, "application/json;as=APIGroupList;v=v1;g=", aggregated,
}

var labelSelectors = []string{"app=web", "app!=web", "app in (web,db),tier", "!app", "app==db,tier notin (back)", "app=nobody"}

func requests() []Request {
	var all []Request
	for _, k := range kinds {
		all = append(all, formatRequests(k)...)
		all = append(all, selectorRequests(k)...)
		all = append(all, pageRequests(k)...)
		all = append(all, watchRequests(k)...)
		all = append(all, getRequests(k)...)
	}
	for _, k := range []kind{pods, gadgets} {
		all = append(all, oddRequests(k)...)
		all = append(all, versionRequests(k)...)
		all = append(all, initialEventsRequests(k)...)
	}
	for _, k := range further {
		all = append(all, formatRequests(k)...)
		all = append(all, selectorRequests(k)...)
		all = append(all, getRequests(k)...)
		all = append(all, oddRequests(k)...)
	}
	all = append(all, sample()...)
	all = append(all, otherVersionRequests()...)
	all = append(all, malformedRequests()...)
	all = append(all, methodRequests()...)
	all = append(all, pathRequests()...)
	all = append(all, discoveryRequests()...)
	all = append(all, clientRequests()...)
	all = append(all, gzipRequests()...)
	all = append(all, credentialRequests()...)
	return unique(all)
}

// sample returns requests with random combinations of list and watch parameters; more with LARDER_SOAK=1.
func sample() (all []Request) {
	n := 400
	if os.Getenv("LARDER_SOAK") != "" {
		n = 6000
	}
	draw := rand.New(rand.NewPCG(19, 36))
	one := func(choices ...string) string { return choices[draw.IntN(len(choices))] }
	for range n {
		k := kinds[draw.IntN(len(kinds))]
		r := get(one(scopes(k)...))
		for _, p := range [][]string{
			append([]string{"labelSelector", "", "", "", ""}, labelSelectors...),
			append([]string{"fieldSelector", "", "", "", "", "metadata.name=" + k.object, k.unsupported}, k.fields...),
			{"resourceVersion", "", "", "", "0", k.old(), k.mid(), k.now(), "{ancient}", "abc"},
			{"resourceVersionMatch", "", "", "", "Exact", "NotOlderThan", "NotOlderThan", "Bad"},
			{"limit", "", "", "1", "2", "500"},
			{"includeObject", "", "", "", "None", "Object"},
		} {
			if value := one(p[1:]...); value != "" {
				r = r.with(p[0], value)
			}
		}
		f := formats[draw.IntN(len(formats))]
		if draw.IntN(3) > 0 {
			all = append(all, r.accept(f.list))
			continue
		}
		if draw.IntN(2) == 0 {
			r = r.with("allowWatchBookmarks", "true")
		}
		if draw.IntN(3) == 0 {
			r = r.with("sendInitialEvents", one("true", "true", "false"))
		}
		all = append(all, r.watch().accept(f.one))
	}
	return all
}
