package contract

import (
	"regexp"
	"slices"
	"strings"
)

// Rule accepts a class of intended differences between kube-apiserver and larder. The rules equal the table in
// docs/serve.md, row by row.
type Rule struct {
	Name, What, Why string
	// ShownBy names the test that shows the differences, if no request of TestContract shows them.
	ShownBy string
	Accepts func(Difference) bool
}

// rules are the intended differences between kube-apiserver and larder. A difference belongs to the first rule that
// accepts it.
var rules = []Rule{
	{
		Name: "writes",
		What: "`POST`, `PUT`, `PATCH` and `DELETE` of objects, and unknown HTTP methods, are 403 or 405, with " +
			"any body",
		Why: "a mirror is read-only; `--forward` sends them to the API server",
		Accepts: func(d Difference) bool {
			return !d.Request.reads() && objects(d) && !strings.Contains(d.Request.Path, "/selfsubject") &&
				(d.statusBecomes("403", "405") || d.Path == "body.message" || strings.HasPrefix(d.Path, "body.details"))
		},
	},
	{
		Name: "subresources",
		What: "`log`, `exec`, `scale`, `proxy`, `status` of custom resources and other subresources, existing or " +
			"not, are 403 or 405",
		Why: "a mirror has objects only; `--forward` sends such requests to the API server",
		Accepts: func(d Difference) bool {
			return d.Request.subresource() && d.statusBecomes("403", "405") && objects(d)
		},
	},
	{
		Name: "unmirrored resources",
		What: "are 404, with a hint, or 403",
		Why:  "an empty list would claim that there are no objects",
		Accepts: func(d Difference) bool {
			return unmirrored(d.Request.Path) && (d.statusBecomes("403", "404") || d.Path == "header.Warning" ||
				strings.HasPrefix(d.Path, "body.details") || d.Path == "body.message")
		},
	},
	{
		Name:    "hints",
		What:    "the `message` of an error may continue after the text of kube-apiserver",
		Why:     "it says what to do",
		Accepts: func(d Difference) bool { return d.Path == "body.message" && d.goesOn() },
	},
	{
		Name: "discovery",
		What: "has no unmirrored groups, versions, resources and subresources, prefers no unmirrored version, " +
			"and has no verbs but get, list and watch, and no `storageVersionHash`",
		Why: "it lists the requests that the mirror answers",
		Accepts: func(d Difference) bool {
			return discovery.MatchString(d.Request.Path) && (d.Got == absent{} && listed.MatchString(d.Path) ||
				preferred.MatchString(d.Path))
		},
	},
	{
		Name: "watches from the future",
		What: "with a `resourceVersion` above the newest, a watch is 504 Too large resource version; " +
			"kube-apiserver begins the watch, and sends nothing until it has reached that version",
		Why: "the client may have seen another cluster, or the state before a restore",
		Accepts: func(d Difference) bool {
			return d.Request.Watch() && d.Request.value("resourceVersion") == "{future}" && d.statusBecomes("504")
		},
	},
	{
		Name: "reviews of oneself",
		What: "SelfSubjectReview and SelfSubjectAccessReview name larder's users and rights: other verbs than " +
			"get, list and watch are not allowed, and a `reason` says why. With GET they are 404, and a body that " +
			"is no review has another message",
		Why: "larder's users and rights apply here",
		Accepts: func(d Difference) bool {
			return strings.Contains(d.Request.Path, "/selfsubject") && (strings.HasPrefix(d.Path, "body.status.") ||
				d.Request.Method == "GET" && d.statusBecomes("404") || d.Request.Method == "POST" && d.Path == "body.message")
		},
	},
	{
		Name:    "impersonation",
		What:    "a request with `Impersonate-` headers is refused",
		Why:     "no user has the right to impersonate here, and ignoring the headers would answer as another user",
		Accepts: func(d Difference) bool { return d.Request.impersonates() && d.statusBecomes("403") },
	},
	{
		Name: "the last page",
		What: "with a selector, no `continue` follows the last matching object; kube-apiserver returns one as " +
			"long as any object follows, and then an empty page",
		Why: "it saves a request",
		Accepts: func(d Difference) bool {
			return (d.Request.has("labelSelector") || d.Request.has("fieldSelector")) && !d.Request.pagesOfNamespace() &&
				lastPage.MatchString(d.Path)
		},
	},
	{
		Name: "events",
		What: "are answered like other resources: a `resourceVersion` that is no number is 500 in a get, one " +
			"above the newest has `Retry-After`, and 0 has no `limit`",
		Why:     "kube-apiserver has no watch cache for events, and reads them from etcd",
		Accepts: func(d Difference) bool { return events.of(d.Request.Path) && uncached(d) },
	},
	{
		Name: "one name",
		What: "a list of the object of one name, with `limit` and `resourceVersion`, has that `resourceVersion`, " +
			"like other lists; kube-apiserver ignores the `limit` there, and its effect on the `resourceVersion`",
		Why: "no client sends such a list",
		Accepts: func(d Difference) bool {
			return d.Request.single() && d.Request.has("limit") && d.Request.value("resourceVersionMatch") == "" &&
				d.Request.value("resourceVersion") != "" && d.Request.value("resourceVersion") != "0"
		},
	},
	{
		Name: "pages of a namespace that a field selects",
		What: "have each object once; kube-apiserver repeats the first object if the field selector has " +
			"`metadata.namespace` and there is a `limit`",
		Why: "an error upstream",
		Accepts: func(d Difference) bool {
			return d.Request.pagesOfNamespace() && (strings.HasPrefix(d.Path, "pages") || d.Path == "resourceVersions")
		},
	},
	{
		Name: "protobuf of extensions",
		What: "CustomResourceDefinitions and APIServices are JSON for clients that prefer protobuf, and 406 for " +
			"clients that accept only protobuf",
		Why: "client-go lacks their Go types, and each program that imports larder would get two more " +
			"dependencies",
		Accepts: func(d Difference) bool {
			return extends(d.Request.Path) && d.Request.accepts(protobuf) && !d.Request.accepts("as=Partial") &&
				(d.statusBecomes("406") || d.Request.accepts("application/json") && d.Path != "status")
		},
	},
	{
		Name: "descriptions of columns",
		What: "a Table's `columnDefinitions` have no `description`, and a watch of APIServices has them in its " +
			"first event only, like other watches",
		Why: "no printer shows them, and each has hundreds of bytes",
		Accepts: func(d Difference) bool {
			return strings.HasSuffix(d.Path, ".description") && d.Got == "" ||
				apiServices.of(d.Request.Path) && d.Request.Watch() && repeated.MatchString(d.Path) && d.Got == nil
		},
	},
	{
		Name:    "indentation",
		What:    "objects and OpenAPI documents are not indented, for any `pretty` and User-Agent",
		Why:     "a list is written while it is read",
		Accepts: func(d Difference) bool { return d.Path == "indented" || d.Path == "newline" },
	},
	{
		Name: "bookmarks",
		What: "may lack fields that kube-apiserver sets to zero in the bookmarks of some kinds; in a Table their " +
			"object is always metadata, with the date `<unknown>`",
		Why: "clients read only resourceVersion and annotations",
		Accepts: func(d Difference) bool {
			return bookmark.MatchString(d.Path) || extends(d.Request.Path) && zero.MatchString(d.Path)
		},
	},
	{
		Name: "several errors",
		What: "a request with several errors, one of which is 406 or a `resourceVersion` that is no number, may " +
			"get another of these errors; a 406 may have another text and no empty `details`",
		Why: "kube-apiserver checks for them in an order that differs by kind and verb",
		Accepts: func(d Difference) bool {
			noRV := d.Request.value("resourceVersion") == "abc"
			return d.isError() && (d.has406() || noRV) || d.Path == "body.message" && (noRV || d.otherTypes()) ||
				d.Request.notAcceptable() && (d.Path == "body.message" || d.Path == "body.details" ||
					d.Path == "header.Content-Type")
		},
	},
	{
		Name: "malformed paths",
		What: "paths with `..` or an empty segment are 404, with a text for some paths and a Status for others, " +
			"by other rules",
		Why: "no client requests them",
		Accepts: func(d Difference) bool {
			return unclean.MatchString(d.Request.Path) && d.statusBecomes("404") ||
				nothing.MatchString(d.Request.Path) && (d.Path == "body" || d.Path == "header.Content-Type" ||
					d.Path == "header.X-Content-Type-Options" || strings.HasPrefix(d.Path, "body.details"))
		},
	},
	{
		Name: "the page",
		What: "the root is a web page, served without credentials, like the files below `/page/`; `/larder/` has " +
			"its data",
		Why: "kube-apiserver lists paths at the root, and the page needs no port of its own",
		Accepts: func(d Difference) bool {
			return d.Request.Path == "/" && (d.Path == "body" || strings.HasPrefix(d.Path, "header.") || d.Path == "newline" ||
				strings.HasPrefix(d.Path, "body."))
		},
	},
	{
		Name: "other methods",
		What: "methods that do not read are 404 or 405 for paths of no object, and HEAD is answered like GET; " +
			"`Allow` may be present",
		Why: "kube-apiserver answers them like GET at some paths",
		Accepts: func(d Difference) bool {
			return d.Request.Method != "GET" && !objects(d) && (d.statusBecomes("200", "404", "405") || d.Path == "header.Allow")
		},
	},
	{
		Name:    "OpenAPI v2",
		What:    "`/openapi/v2` is 404; `--forward` sends it to the API server",
		Why:     "kubectl requests v3 since 1.27, and v2 would be another document of megabytes in each store",
		Accepts: func(d Difference) bool { return d.Request.Path == "/openapi/v2" && d.statusBecomes("404") },
	},
	{
		Name: "OpenAPI",
		What: "documents are JSON, without `Last-Modified` and redirects, and a trailing slash is ignored, also " +
			"in discovery",
		Why: "kubectl requests nothing else",
		Accepts: func(d Difference) bool {
			return strings.HasPrefix(d.Request.Path, "/openapi/") || d.Request.Path == "/apis/"
		},
	},
	{
		Name:    "watches by path",
		What:    "`/api/v1/watch/…` is 403 or 404",
		Why:     "deprecated since 1.11",
		Accepts: func(d Difference) bool { return strings.Contains(d.Request.Path, "/watch/") },
	},
	{
		Name: "formats of watches",
		What: "a watch as PartialObjectMetadataList is answered as PartialObjectMetadata, and a watch whose " +
			"preferred format cannot be streamed in the next format that can; a get as PartialObjectMetadataList " +
			"is 406",
		Why: "kube-apiserver sends nothing, or a 500",
		Accepts: func(d Difference) bool {
			return d.Request.Watch() && (d.Request.accepts("PartialObjectMetadataList") || d.statusBecomes("200")) ||
				d.Request.accepts("PartialObjectMetadataList") && d.isError()
		},
	},
	{
		Name: "websockets",
		What: "a watch for a page of another origin needs a token, and with a client certificate it is 403; a " +
			"client that sends more than 1 MiB is disconnected",
		Why:     "browsers send certificates for any page; clients of a watch have nothing to send",
		ShownBy: "serve TestWebsocketOrigin, TestWebsocketClientSends",
		Accepts: func(Difference) bool { return false },
	},
}

func (d Difference) isError() bool {
	want, _ := d.Want.(string)
	got, _ := d.Got.(string)
	return d.Path == "status" && want >= "4" && got >= "4"
}

// otherTypes reports whether the message of the API server's error lists the acceptable media types.
func (d Difference) otherTypes() bool {
	want, _ := d.Want.(string)
	return strings.HasPrefix(want, "only the following media types are accepted: ")
}

func (d Difference) has406() bool {
	want, _ := d.Want.(string)
	got, _ := d.Got.(string)
	return strings.HasPrefix(want, "406 ") || strings.HasPrefix(got, "406 ")
}

func (r Request) accepts(text string) bool {
	return slices.ContainsFunc(r.Header, func(h string) bool {
		return strings.HasPrefix(h, "Accept: ") && strings.Contains(h, text)
	})
}

func (r Request) notAcceptable() bool {
	return slices.ContainsFunc([]string{"cbor", "text/", "garbage", "v2beta1", "v=v3", "stream=watch", "as=", "application/*",
		"application/yaml", "protobuf"}, r.accepts)
}

func (r Request) reads() bool { return r.Method == "GET" || r.Method == "HEAD" }

func (r Request) subresource() bool {
	parts := strings.Split(strings.Trim(r.Path, "/"), "/")
	if parts = parts[min(2, len(parts)):]; strings.HasPrefix(r.Path, "/apis/") {
		parts = parts[min(1, len(parts)):]
	}
	if len(parts) > 3 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) > 2 || strings.Contains(r.Path, "%2F")
}

func (r Request) impersonates() bool {
	return slices.ContainsFunc(r.Header, func(h string) bool { return strings.HasPrefix(h, "Impersonate-") })
}

// pagesOfNamespace reports whether the request is for a list in pages that selects one namespace by a field selector.
func (r Request) pagesOfNamespace() bool {
	return r.Walk && strings.Contains(r.value("fieldSelector"), "metadata.namespace=")
}

// goesOn reports whether larder's text begins with the API server's text and continues.
func (d Difference) goesOn() bool {
	want, _ := d.Want.(string)
	got, _ := d.Got.(string)
	return want != "" && strings.HasPrefix(got, want+": ")
}

func (k kind) of(path string) bool {
	version := strings.TrimSuffix(k.all(), k.Resource)
	return strings.HasPrefix(path, version) && strings.Contains(path+"/", "/"+k.Resource+"/")
}

// uncached reports whether a difference comes from the watch cache, which only one of the two servers has.
func uncached(d Difference) bool {
	want, _ := d.Want.(string)
	return d.Request.value("resourceVersion") == "0" && d.Request.has("limit") ||
		d.Path == "header.Retry-After" || d.Path == "body.details.retryAfterSeconds" ||
		strings.Contains(want, "The resourceVersion for the provided watch is too old.") ||
		d.statusBecomes("500") && strings.HasPrefix(want, "400 BadRequest invalid resource version")
}

// statusBecomes reports whether the servers' statuses differ and larder's status is one of codes.
func (d Difference) statusBecomes(codes ...string) bool {
	got, _ := d.Got.(string)
	code, _, _ := strings.Cut(got, " ")
	return d.Path == "status" && slices.Contains(codes, code)
}

func objects(d Difference) bool {
	return strings.HasPrefix(d.Request.Path, "/api/v1/") || strings.Count(d.Request.Path, "/") > 3
}

func unmirrored(path string) bool {
	return slices.ContainsFunc([]string{"/apis/example.com/v1beta1", "/apis/events.k8s.io/", "/secrets", "/replicasets",
		"/services"}, func(part string) bool { return strings.Contains(path, part) })
}

func extends(path string) bool { return definitions.of(path) || apiServices.of(path) }

var (
	discovery = regexp.MustCompile(`^(/|/api|/apis|/api/v1|/apis/[^/]+|/apis/[^/]+/[^/]+|/openapi/v3)/?$`)
	// listed matches the path of an item of a discovery document in an answer.
	listed = regexp.MustCompile(`^body\.(paths|groups|versions|resources|items)\[[^\]]*\](\.(versions|resources|verbs)\[[^\]]*\])*` +
		`(\.storageVersionHash|\.subresources)?$`)
	preferred = regexp.MustCompile(`^body\.groups\[past\.example\.com\]\.preferredVersion\.(groupVersion|version)$`)
	repeated  = regexp.MustCompile(`^events\[[^\]]*\]\.object\.columnDefinitions$`)
	lastPage  = regexp.MustCompile(`^(pages\[\d+\]|pages\[\d+\]\.body\.metadata\.continue|body\.metadata\.continue)$`)
	bookmark  = regexp.MustCompile(`^events\[BOOKMARK\]\.object\.(rows\[0\]\.(object\.|cells\[)|spec\.replicas$)`)
	zero      = regexp.MustCompile(`^events\[BOOKMARK\]\.object\.(spec|status)$`)
	nothing   = regexp.MustCompile(`^(/api/v1/(/|\.\./)|/apis/example\.com/|/apis/nope/|/api/v1/pods/)`)
	unclean   = regexp.MustCompile(`//|/(\.\.|%2e%2e)(/|$)`)
)
