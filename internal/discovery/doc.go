// Package discovery answers the requests by which clients discover the API of a server. The resources themselves are
// served by other handlers.
//
//	h := discovery.New(resources, discovery.Options{Server: known, OpenAPI: stored})
//	if discovery.IsPath(r.URL.Path) {
//		h.ServeHTTP(w, r)
//	}
//
// Call New with the resources. A Handler does not change: call New again if the resources change. A Handler does no I/O
// except by Options.OpenAPI.
//
// # Answers
//
//	/api, /apis                   the versions and groups; or all of discovery, to clients that ask for an
//	                              APIGroupDiscoveryList of apidiscovery.k8s.io/v2, with an ETag
//	/api/v1, /apis/G, /apis/G/V   the resources of a group-version, the versions of a group
//	/version                      the server's version
//	/openapi/v3, /openapi/v3/…    the index of the OpenAPI v3 schemas, and the schemas, byte for byte as the server
//	                              has sent them, under the server's hash
//
// The answers equal kube-apiserver's (1.36) for the same resources, in JSON, YAML and protobuf; test/e2e compares the
// answers. Other resources are not found, nor are versions and groups without any of the resources. The differences
// are:
//
//   - Verbs are taken from the given resources.
//   - Only the given subresources are listed.
//   - storageVersionHash is left out: it describes the server's storage, and is not stored.
//   - A group's preferred version is the first one of the given resources, in the server's order.
//   - Resources of custom groups are sorted by name, as in other groups. A server lists them in any order.
//   - The index of schemas is JSON by its Content-Type too, has an ETag, and lists only group-versions.
//   - Schemas are sent in JSON only. Servers also have them in protobuf, which neither kubectl nor client-go requests.
//   - There is no /openapi/v2. kubectl requests it to validate objects before it writes them, if /openapi/v3 does not
//     answer, and for explain --output plaintext-openapiv2. Complete reports for which paths the server should be
//     asked.
//   - The address in /api is the one in the client's request.
//   - responseKind, in the aggregated documents, has group and version unless the group is one of Kubernetes' own. An
//     aggregated API server may leave them out, which means the same.
//   - The text of a refusal (406) is the same at all paths. HEAD is allowed everywhere, and no other method but GET;
//     servers differ in that.
//
// Groups and versions are in the order of facts.Order: the core group first, the others as in Options.Server.Discovery.
// Groups that are missing there follow, Kubernetes' own first. Versions that are missing there follow in Kubernetes'
// order: v2, v1, v1beta1.
package discovery
