package contract

import (
	"slices"
	"strings"
)

func formatRequests(k kind) (all []Request) {
	for _, f := range formats {
		includes := []string{""}
		if strings.HasPrefix(f.list, table) {
			includes = []string{"", "None", "Metadata", "Object"}
		}
		for _, include := range includes {
			forms := []Request{
				get(k.all()).accept(f.list),
				get(k.in("shop")).accept(f.list),
				get(k.all(), "labelSelector", "app=nobody").accept(f.list),
				get(k.all(), "limit", "2").accept(f.list).walk(),
				get(k.named(k.object)).accept(f.one),
				get(k.named("nobody")).accept(f.one),
				get(k.all()).watch().accept(f.one),
				get(k.all()).watch("resourceVersion", k.old()).accept(f.one),
				get(k.all()).watch("allowWatchBookmarks", "true", "sendInitialEvents", "true", "resourceVersionMatch",
					"NotOlderThan", "labelSelector", "app=web").accept(f.one),
				get(k.all()).watch("resourceVersion", "{ancient}").accept(f.one),
			}
			for _, r := range forms {
				if include != "" {
					r = r.with("includeObject", include)
				}
				all = append(all, r)
			}
		}
	}
	return append(all, get(k.all(), "pretty", "1"), get(k.named(k.object), "pretty", "true"),
		get(k.all()).watch("pretty", "1"), get(k.all(), "includeObject", "Bad").accept(table),
		get(k.named(k.object), "includeObject", "Bad").accept(table),
		get(k.named("nobody"), "includeObject", "Bad").accept(table),
		get(k.all(), "includeObject", "Bad"), get(k.all()).watch("includeObject", "Bad").accept(table))
}

func oddRequests(k kind) (all []Request) {
	for _, a := range odd {
		all = append(all, get(k.all()).accept(a), get(k.named(k.object)).accept(a), get(k.named("nobody")).accept(a),
			get(k.all()).watch().accept(a), get(k.all(), "fieldSelector", k.unsupported).accept(a))
	}
	return all
}

func scopes(k kind) []string {
	if !k.namespaced {
		return []string{k.all()}
	}
	return []string{k.all(), k.in("shop"), k.in("lab"), k.in("empty"), k.in("nowhere")}
}

func selectorRequests(k kind) (all []Request) {
	fields := append([]string{"metadata.name=" + k.object, "metadata.name!=" + k.object, "metadata.name=nobody",
		"metadata.name=" + k.object + ",metadata.name!=x", "metadata.namespace=shop", "metadata.namespace!=shop",
		"metadata.name==" + k.object + ",metadata.namespace=lab", k.unsupported}, k.fields...)
	for _, scope := range scopes(k) {
		for _, l := range labelSelectors {
			all = append(all, get(scope, "labelSelector", l))
		}
		for _, f := range fields {
			all = append(all, get(scope, "fieldSelector", f))
		}
		all = append(all, get(scope), get(scope, "labelSelector", "app=web", "fieldSelector", "metadata.name="+k.object))
	}
	for _, f := range fields {
		all = append(all, get(k.all()).watch("fieldSelector", f), get(k.all()).watch("fieldSelector", f,
			"resourceVersion", k.old()), get(k.all(), "fieldSelector", f, "limit", "1").walk())
	}
	for _, l := range labelSelectors {
		all = append(all, get(k.all()).watch("labelSelector", l, "resourceVersion", k.old()),
			get(k.all(), "labelSelector", l, "limit", "1").walk())
	}
	return all
}

// pageRequests returns lists in pages, and lists with invalid continue tokens. e30 encodes {}.
func pageRequests(k kind) (all []Request) {
	for _, limit := range []string{"1", "3", "4", "500"} {
		for _, a := range []string{"application/json", table, partials} {
			all = append(all, get(k.all(), "limit", limit).accept(a).walk())
		}
	}
	return append(all,
		get(k.all(), "limit", "1", "labelSelector", "app=web").walk(),
		get(k.in("shop"), "limit", "1").walk(),
		get(k.all(), "limit", "1", "resourceVersion", k.mid(), "resourceVersionMatch", "Exact").walk(),
		get(k.all(), "limit", "1", "resourceVersion", k.old()).walk(),
		get(k.all(), "limit", "1", "resourceVersion", k.old(), "resourceVersionMatch", "NotOlderThan").walk(),
		get(k.all(), "limit", "0"), get(k.all(), "limit", "-1"),
		get(k.all(), "continue", "{token}"), get(k.all(), "continue", "{token}", "limit", "1"),
		get(k.all(), "continue", "{token}", "limit", "1", "resourceVersion", "0"),
		get(k.all(), "continue", "{token}", "limit", "1", "resourceVersion", ""),
		get(k.all(), "continue", "{token}", "resourceVersion", k.now()),
		get(k.all(), "continue", "{token}", "resourceVersionMatch", "Exact"),
		get(k.all(), "continue", "{token}", "resourceVersionMatch", "NotOlderThan", "resourceVersion", k.now()),
		get(k.all(), "continue", "{token}", "resourceVersionMatch", "Bad"),
		get(k.all(), "continue", "{token}").watch(),
		get(k.all(), "continue", "{expired}", "limit", "1"), get(k.all(), "continue", "{expired}").accept(protobuf),
		get(k.all(), "continue", "garbage"), get(k.all(), "continue", "!!"), get(k.all(), "continue", ""),
		get(k.all(), "continue", "e30"),
		get(k.all(), "continue", "garbage", "labelSelector", "!"))
}

func versionRequests(k kind) (all []Request) {
	for _, rv := range []string{"-", "", "0", "00", "{ancient}", k.old(), k.mid(), k.now(), "{future}", "abc", "-1", "1.5"} {
		for _, match := range []string{"-", "", "Exact", "NotOlderThan", "Bad"} {
			for _, limit := range []string{"", "2"} {
				for _, labels := range []string{"", "app=web"} {
					r := get(k.all())
					for _, p := range [][2]string{{"resourceVersion", rv}, {"resourceVersionMatch", match}} {
						if p[1] != "-" {
							r = r.with(p[0], p[1])
						}
					}
					if limit != "" {
						r = r.with("limit", limit)
					}
					if labels != "" {
						r = r.with("labelSelector", labels)
					}
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// getRequests returns requests for one object, some with query parameters that only lists and watches have.
func getRequests(k kind) (all []Request) {
	for _, rv := range []string{"", "0", "00", "{ancient}", k.old(), k.now(), "{future}", "abc", "-1"} {
		all = append(all, get(k.named(k.object), "resourceVersion", rv), get(k.named("nobody"), "resourceVersion", rv))
	}
	for _, pair := range [][2]string{{"watch", "1"}, {"limit", "x"}, {"limit", "1"}, {"resourceVersionMatch", "Exact"},
		{"labelSelector", "app=nobody"}, {"labelSelector", "!"}, {"fieldSelector", k.unsupported}, {"export", "1"},
		{"timeoutSeconds", "1"}, {"pretty", "0"}, {"unknown", "1"}, {"timeout", "5s"}, {"timeout", "abc"}} {
		all = append(all, get(k.named(k.object), pair[0], pair[1]))
	}
	return append(all, get(k.named("UPPER")), get(k.named("x%20y")), get(k.named("%2e%2e")), get(k.named("a%2Fb")),
		get(k.named(k.object)+"/"), get(k.named(k.object)+"/status"), get(k.named(k.object)+"/nope"), get(k.named("goes")),
		get(k.named("comes")))
}

// gzipRequests returns requests with answers just below and just above the minimum size for compression.
func gzipRequests() (all []Request) {
	large := configmaps.in("large")
	for _, encoding := range []string{"gzip", "gzip, deflate, br", "br", "*", "gzip;q=0", "identity"} {
		for _, a := range []string{"application/json", "application/yaml", protobuf, table} {
			for _, path := range []string{large + "/size-100", large + "/size-127", large + "/size-129",
				large + "/size-150", large, configmaps.in("shop"), pods.all(), configmaps.all()} {
				if slices.Contains([]string{"gzip", "*"}, encoding) || a == "application/json" {
					all = append(all, get(path).header("Accept-Encoding", encoding).accept(a))
				}
			}
		}
	}
	return append(all, get(large, "includeObject", "Object").header("Accept-Encoding", "gzip").accept(table),
		get(large, "limit", "2").header("Accept-Encoding", "gzip").walk(),
		get(large).watch().header("Accept-Encoding", "gzip"),
		get("/apis").accept(aggregated).header("Accept-Encoding", "gzip"))
}
