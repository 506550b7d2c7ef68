package contract

import "time"

// clientRequests returns requests of clients that cannot run in the test: k9s, Lens, and variants of client-go's
// informers.
func clientRequests() (all []Request) {
	for _, k := range kinds {
		all = append(all,
			get(k.all(), "includeObject", "Object").accept(table),
			get(k.in("shop"), "includeObject", "None", "limit", "1").accept(table),
			get(k.named(k.object), "includeObject", "Metadata").accept(table),
			get(k.in("shop")).watch("resourceVersion", "0", "includeObject", "Object").accept(table),
			// Lens sends the following lists.
			get(k.all()).accept("application/json, text/plain, */*"),
			get(k.in("shop"), "pretty", "false").header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Lens"),
			Request{Method: "GET", Path: k.in("shop"), Query: query("watch", "1", "resourceVersion", k.now()), HangUp: time.Second},
			// kubectl sends the following lists and watches.
			get(k.all(), "limit", "500").accept(kubectlGet),
			get(k.in("shop"), "limit", "500", "fieldSelector", "metadata.name="+k.object).accept(kubectlGet),
			get(k.in("shop")).watch("resourceVersion", k.now()).accept(kubectlGet),
			get(k.in("shop")).watch("fieldSelector", "metadata.name="+k.object, "resourceVersion", k.old()).accept(kubectlGet),
			get(k.named(k.object)).header("User-Agent", "curl/8.5.0"),
			// client-go's reflector and the garbage collector send the following lists and watches.
			get(k.all(), "limit", "500", "resourceVersion", "0").accept(typed),
			get(k.all()).watch("allowWatchBookmarks", "true", "resourceVersion", k.now()).accept(typed),
			get(k.all(), "limit", "500", "resourceVersion", "0").accept(metadataList),
			get(k.all()).watch("allowWatchBookmarks", "true", "resourceVersion", k.old()).accept(metadataOne))
	}
	review := func(group, name, body string) Request {
		return Request{Method: "POST", Path: "/apis/" + group + "/v1/" + name, Body: body}.header("Content-Type", "application/json")
	}
	for _, attributes := range []string{
		`"resourceAttributes":{"verb":"list","resource":"pods","namespace":"shop"}`,
		`"resourceAttributes":{"verb":"watch","resource":"pods"}`,
		`"resourceAttributes":{"verb":"get","resource":"pods","subresource":"log"}`,
		`"resourceAttributes":{"verb":"delete","resource":"pods","namespace":"shop"}`,
		`"resourceAttributes":{"verb":"list","group":"example.com","resource":"gadgets"}`,
		`"resourceAttributes":{"verb":"*","resource":"*","group":"*"}`,
		`"nonResourceAttributes":{"path":"/version","verb":"get"}`, ``,
	} {
		all = append(all, review("authorization.k8s.io", "selfsubjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{`+attributes+`}}`))
	}
	return append(all,
		review("authorization.k8s.io", "selfsubjectrulesreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"shop"}}`),
		review("authentication.k8s.io", "selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`),
		review("authorization.k8s.io", "selfsubjectaccessreviews", "garbage"),
		get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))
}

func credentialRequests() (all []Request) {
	for _, credential := range []string{"", "Bearer wrong", "Bearer", "Basic eDp5"} {
		for _, path := range []string{"/api/v1/pods", "/version", "/api", "/nope", "/healthz", "/api/v1/namespaces/shop/pods/running"} {
			all = append(all, get(path).header("Authorization", credential))
		}
		all = append(all, get("/api/v1/pods").accept("application/yaml").header("Authorization", credential),
			get("/api/v1/pods").accept(protobuf).header("Authorization", credential))
	}
	return append(all, get("/api/v1/pods").header("Impersonate-User", "somebody"),
		get("/api/v1/pods").header("Impersonate-Group", "somebody"))
}
