package contract

import "strings"

// otherVersionRequests returns requests for other versions of mirrored resources, and for resources that are not
// mirrored.
func otherVersionRequests() (all []Request) {
	for _, path := range []string{"/apis/example.com/v1beta1/plains", "/apis/example.com/v1beta1/plains/one",
		"/apis/example.com/v1beta1/plains/nobody", "/apis/events.k8s.io/v1/events", "/api/v1/secrets",
		"/api/v1/namespaces/shop/secrets/nobody", "/apis/apps/v1/replicasets", "/api/v1/services"} {
		all = append(all, get(path), get(path).accept(table))
	}
	return append(all, get("/apis/example.com/v1beta1/plains").watch(), get("/api/v1/secrets").watch())
}

func malformedRequests() (all []Request) {
	for _, k := range []kind{pods, gadgets} {
		for _, pair := range [][2]string{
			{"labelSelector", "a===b"}, {"labelSelector", "!"}, {"labelSelector", "a in ("}, {"labelSelector", "="},
			{"labelSelector", "-x=1"}, {"labelSelector", "a=b c"}, {"labelSelector", strings.Repeat("x", 64)},
			{"labelSelector", ","}, {"labelSelector", "a>1"}, {"labelSelector", "a>b"}, {"labelSelector", "a in (b),"},
			{"fieldSelector", "nonsense"}, {"fieldSelector", "metadata.name"}, {"fieldSelector", "metadata.name===x"},
			{"fieldSelector", "=x"}, {"fieldSelector", `metadata.name=a\,b`}, {"fieldSelector", `metadata.name=a\x`},
			{"fieldSelector", ","}, {"fieldSelector", "a=b"}, {"fieldSelector", "metadata.labels=x"},
			{"limit", "x"}, {"limit", "1.5"}, {"limit", "99999999999999999999"}, {"limit", ""}, {"timeoutSeconds", "x"},
			{"watch", "false"}, {"watch", "0"}, {"watch", "FALSE"}, {"allowWatchBookmarks", "x"}, {"sendInitialEvents", "true"},
			{"sendInitialEvents", "x"}, {"sendInitialEvents", ""}, {"timeout", "abc"}, {"timeout", "-1s"}, {"timeout", "100h"},
			{"unknown", "1"}, {"pretty", "x"}, {"dryRun", "All"}, {"shardSelector", "x"},
		} {
			all = append(all, get(k.all(), pair[0], pair[1]))
			if pair[0] != "watch" {
				all = append(all, get(k.all()).watch(pair[0], pair[1]))
			}
		}
		for _, q := range []string{"labelSelector=%zz", "a;b", "limit=1;labelSelector=x", "&&", "=", "limit=2&limit=x",
			"limit=x&limit=2", "watch=false&watch=true", "labelSelector=app%3Dweb&labelSelector=app%3Ddb",
			"LIMIT=1", "resourceversion=abc"} {
			all = append(all, Request{Method: "GET", Path: k.all(), Query: q})
		}
		for _, q := range []string{"watch=x", "watch=2", "watch=True", "watch=TRUE", "watch", "watch="} {
			all = append(all, Request{Method: "GET", Path: k.all(), Query: q + "&timeoutSeconds=1"})
		}
		all = append(all, get(k.all(), "limit", "x", "labelSelector", "!", "resourceVersionMatch", "Bad"),
			get(k.all(), "labelSelector", "!", "fieldSelector", "nonsense"),
			get(k.all(), "fieldSelector", k.unsupported, "resourceVersionMatch", "Bad"),
			get(k.all(), "fieldSelector", k.unsupported, "resourceVersion", "abc"),
			get(k.all(), "resourceVersion", "abc", "continue", "garbage"),
			get(k.all()).watch("resourceVersion", "abc", "labelSelector", "!"))
	}
	return all
}

// methodRequests returns requests with methods other than GET. Writing requests are dry runs.
func methodRequests() (all []Request) {
	for _, k := range []kind{pods, configmaps, gadgets, plains, apiServices, endpoints, relics} {
		for _, m := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "FOO"} {
			for _, path := range []string{k.all(), k.in("shop"), k.named(k.object), k.named("nobody"), k.named(k.object) + "/status"} {
				r := Request{Method: m, Path: path, Query: "dryRun=All"}
				if m != "HEAD" && m != "DELETE" { // DELETE reads its options from a body in place of the query
					r.Body = "{}"
				}
				if m == "PATCH" {
					all = append(all, r.header("Content-Type", "application/merge-patch+json"))
				}
				all = append(all, r, r.header("Content-Type", "application/json"))
			}
		}
	}
	for _, m := range []string{"POST", "PUT", "DELETE", "OPTIONS", "HEAD", "FOO"} {
		for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.com",
			"/apis/example.com/v1", "/version", "/openapi/v3", "/healthz", "/nope", "/api/v1/nope", "/apis/example.com/v1/nope"} {
			all = append(all, Request{Method: m, Path: path})
		}
	}
	for _, path := range []string{"/log", "/exec", "/attach", "/portforward", "/proxy/", "/eviction", "/binding", "/ephemeralcontainers"} {
		all = append(all, get(pods.named("pending")+path), Request{Method: "POST", Path: pods.named("pending") + path,
			Query: "dryRun=All", Body: "{}"}.header("Content-Type", "application/json"))
	}
	return append(all, get(deployments.named("web")+"/scale"), get(gadgets.named("full")+"/scale"),
		get(nodes.named("node-1")+"/proxy/"), get(namespaces.named("shop")+"/finalize"))
}

func pathRequests() (all []Request) {
	for _, path := range []string{
		"/nope", "/nope/", "/api/nope", "/api/v2", "/api/v2/pods", "/api/v1/nope", "/api/v1/nope/x", "/api/v1/pods/running",
		"/api/v1/pods/running/status", "/api/v1/namespaces/shop/nope", "/api/v1/namespaces/shop/nope/x",
		"/api/v1/namespaces/shop/nodes", "/api/v1/namespaces/shop/nodes/node-1", "/api/v1/namespaces/shop/namespaces",
		"/api/v1/nodes/node-1/nope", "/api/v1/namespaces/shop/pods/running/a/b", "/apis/nope", "/apis/nope/v1",
		"/apis/nope/v1/things",
		"/apis/apps/v2", "/apis/apps/v2/deployments", "/apis/apps/v1/nope", "/apis/apps/v1/namespaces/shop/nope",
		"/apis/apps/v1/pods", "/api/v1/deployments", "/apis/example.com/v2", "/apis/example.com/v2/gadgets",
		"/apis/example.com/v1/nope", "/apis/example.com/v1/gadgets/full", "/apis/example.com/v1/namespaces/shop/nope",
		"/apis/example.com/v1/namespaces/shop/plains", "/apis/example.com/v1/namespaces/shop/plains/one",
		"/apis/example.com/v1/namespaces/shop", "/apis/apps/v1/namespaces/shop", "//api/v1/pods", "/api//v1/pods",
		"/api/v1//pods", "/api/v1/../v1/pods", "/api/v1/./pods", "/API/v1/pods", "/api/v1/Pods", "/api/v1/pod",
		"/api/v1/namespaces//pods", "/api/v1/namespaces//pods/running", "/api/v1/namespaces/UPPER/pods",
		"/api/v1/namespaces/sh%6fp/pods", "/api/v1/pods/", "/api/v1/namespaces/shop/pods/", "/api/v1/namespaces/shop/",
		"/apis/example.com/v1/gadgets/", "/favicon.ico", "/ui", "/logs", "/swagger.json", "/metrics/nope", "/healthz/nope",
		"/apis/apps/v1/namespaces/shop/deployments/web/status", "/api/v1/proxy/nodes/node-1",
		"/api/v1/namespaces/shop/finalize",
	} {
		all = append(all, get(path))
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/"} {
		all = append(all, get(path))
	}
	for _, path := range []string{"/nope", "/api/v1/nope", "/apis/apps/v1/nope", "/apis/example.com/v1/nope"} {
		for _, a := range []string{"application/yaml", protobuf, table, "text/html"} {
			all = append(all, get(path).accept(a))
		}
	}
	for _, path := range []string{"/api/v1/watch/pods", "/api/v1/watch/namespaces/shop/pods",
		"/api/v1/watch/namespaces/shop/pods/running", "/api/v1/watch/nodes/node-1", "/apis/apps/v1/watch/deployments",
		"/apis/example.com/v1/watch/gadgets", "/apis/example.com/v1/watch/namespaces/shop/gadgets/full"} {
		all = append(all, get(path, "timeoutSeconds", "1"))
	}
	return all
}

func discoveryRequests() (all []Request) {
	accepts := []string{"", "application/json", "application/json, */*", "application/yaml", protobuf, "text/html", "application/cbor",
		aggregated, aggregatedOld, aggregated + "," + aggregatedOld + ",application/json", aggregated + ",application/json",
		strings.Replace(aggregated, "application/json", protobuf, 1), strings.Replace(aggregated, "v=v2", "v=v3", 1)}
	for _, path := range []string{"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/example.com",
		"/apis/example.com/v1", "/apis/example.com/v1beta1", "/version", "/openapi/v3"} {
		for _, a := range accepts {
			all = append(all, get(path).accept(a), get(path+"/").accept(a))
		}
		all = append(all, get(path, "timeout", "32s"), get(path, "pretty", "1"))
	}
	for _, path := range []string{"/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/apis/example.com/v1",
		"/openapi/v3/apis/nope/v1", "/openapi/v3/version"} {
		for _, a := range []string{"", "application/json", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
			"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/yaml"} {
			all = append(all, get(path).accept(a))
		}
		all = append(all, get(path, "hash", "ABC"), get(path).header("If-None-Match", `"ABC"`))
	}
	return append(all, get("/apis").accept(aggregated).header("If-None-Match", `"ABC"`), get("/openapi/v2"),
		get("/openapi/v2").accept("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"))
}
