// Package discovery answers the requests by which clients find out what an API server has, for resources that somebody
// else serves.
//
//	h := discovery.New(resources, discovery.Options{Server: known, OpenAPI: stored})
//	if discovery.IsPath(r.URL.Path) {
//		h.ServeHTTP(w, r)
//	}
//
// Call New with the resources. A Handler does not change: if the resources do, make another one. It does no I/O but
// by Options.OpenAPI.
//
// # What is answered
//
//	/api, /apis                   the versions and groups; or all of discovery, to clients that ask for an
//	                              APIGroupDiscoveryList of apidiscovery.k8s.io/v2, with an ETag
//	/api/v1, /apis/G, /apis/G/V   the resources of a group-version, the versions of a group
//	/version                      the server's version
//	/openapi/v3, /openapi/v3/…    the index of the OpenAPI v3 schemas, and the schemas, byte for byte as the server
//	                              has sent them, under the server's hash
//
// It is what kube-apiserver 1.36 answers for the same resources, in JSON, YAML and protobuf; test/e2e compares the two.
// What is not among the resources is not there: neither it, nor a version or group that has none of them. What differs:
//
//   - Verbs are those that the resources have here.
//   - There are no subresources: nothing serves them.
//   - storageVersionHash is left out: it is about the storage of the server, and no store knows it.
//   - A group's preferred version is the first one that is here, in the server's order.
//   - Resources of custom groups come in the order of their names, as those of others do. A server has them in any.
//   - The index of schemas is JSON by its Content-Type too, has an ETag, and lists group-versions alone.
//   - Schemas are sent in JSON only. Servers have them in protobuf, too, which neither kubectl nor client-go asks for.
//   - There is no /openapi/v2. kubectl asks for it to validate what it is about to write, where /openapi/v3 does not
//     answer, and for explain --output plaintext-openapiv2. Complete says which paths are better asked of the server.
//   - The address in /api is the one by which the client has found us.
//   - responseKind, in the aggregated documents, has group and version unless the group is one of Kubernetes' own.
//     An aggregated API server may leave them out, which means the same.
//   - The text of a refusal (406) is the same at all paths. HEAD is allowed everywhere, and no other method but GET:
//     servers are not of one mind.
//
// The order of groups and versions is that of facts.Order: the core group first, the others as Options.Server.Discovery
// has them. Groups that are not in it come behind, Kubernetes' own first, and versions as Kubernetes compares them: v2,
// v1, v1beta1.
package discovery
