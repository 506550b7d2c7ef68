package contract

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Request is sent to both servers. Placeholders in Path, Query and Body stand for resourceVersions of the running
// cluster:
//
//	{ancient}         before all history
//	{old:pods}        before the latest changes of pods, and after the mirror's first list
//	{mid:pods}        between the latest changes of pods
//	{now:pods}        the latest change of pods
//	{future}          far above the server's
//	{token}           the continue token of the same list's first page, with limit=1
//	{expired}         the same token with {ancient} as its resourceVersion
type Request struct {
	Method string
	Path   string
	Query  string
	Header []string
	Body   string
	Walk   bool
	// HangUp is the time after which the client closes a watch without a timeout.
	HangUp time.Duration
}

// get returns a GET request. pairs has the names of query parameters, and after each name its value.
func get(path string, pairs ...string) Request {
	return Request{Method: "GET", Path: path, Query: query(pairs...)}
}

func query(pairs ...string) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		value := url.QueryEscape(pairs[i+1])
		for _, placeholder := range placeholders.FindAllString(pairs[i+1], -1) {
			value = strings.ReplaceAll(value, url.QueryEscape(placeholder), placeholder)
		}
		all = append(all, pairs[i]+"="+value)
	}
	return strings.Join(all, "&")
}

var placeholders = regexp.MustCompile(`\{(ancient|future|token|expired|(old|mid|now):[a-z]+)\}`)

func (r Request) with(pairs ...string) Request {
	r.Query = strings.Trim(r.Query+"&"+query(pairs...), "&")
	return r
}

func (r Request) header(name, value string) Request {
	r.Header = append(slices.Clone(r.Header), name+": "+value)
	return r
}

func (r Request) accept(value string) Request { return r.header("Accept", value) }

// watch returns a watch of one second on the request's collection.
func (r Request) watch(pairs ...string) Request {
	return r.with(append([]string{"watch", "true", "timeoutSeconds", "1"}, pairs...)...)
}

func (r Request) walk() Request {
	r.Walk = true
	return r
}

func (r Request) value(name string) string {
	values, _ := url.ParseQuery(r.Query) // malformed parts are ignored
	return values.Get(name)
}

func (r Request) has(name string) bool {
	values, _ := url.ParseQuery(r.Query)
	return values.Has(name)
}

func (r Request) Watch() bool {
	if strings.Contains(r.Path, "/watch/") {
		return true
	}
	text := strings.ToLower(r.value("watch"))
	return r.has("watch") && text != "false" && text != "0" && !named(r.Path)
}

// Exact reports whether a list request wants the state at exactly its resourceVersion. To the API server a path with an
// object's name is no list, so the parameter limit has no effect there.
func (r Request) Exact() bool {
	if number(r.value("resourceVersion")) == 0 || r.Watch() || named(r.Path) {
		return false
	}
	if match := r.value("resourceVersionMatch"); match != "" {
		return match == "Exact"
	}
	limit := r.value("limit")
	return limit != "" && limit != "0" && !r.has("continue") && !r.single()
}

// single reports whether a list request selects one object by name, in one namespace or cluster-wide.
func (r Request) single() bool {
	return oneName.MatchString(r.value("fieldSelector")) &&
		(strings.Contains(r.Path, "/namespaces/") || clusterWide.MatchString(r.Path))
}

var (
	oneName     = regexp.MustCompile(`(^|,)metadata\.name==?[^=]`)
	clusterWide = regexp.MustCompile(`/(nodes|namespaces|plains|customresourcedefinitions|apiservices)$`)
)

func named(path string) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case segments[0] == "api":
		segments = segments[min(2, len(segments)):]
	case segments[0] == "apis":
		segments = segments[min(3, len(segments)):]
	default:
		return false
	}
	if len(segments) > 2 && segments[0] == "namespaces" {
		segments = segments[2:]
	}
	return len(segments) > 1
}

func (r Request) String() string {
	text := r.Method + " " + r.Path
	if r.Query != "" {
		text += "?" + r.Query
	}
	for _, h := range r.Header {
		text += " [" + h + "]"
	}
	if r.Body != "" {
		text += fmt.Sprintf(" %q", r.Body)
	}
	if r.Walk {
		text += " (all pages)"
	}
	if r.HangUp > 0 {
		text += fmt.Sprintf(" (hang up after %s)", r.HangUp)
	}
	return text
}

func unique(requests []Request) []Request {
	seen := map[string]bool{}
	return slices.DeleteFunc(requests, func(r Request) bool {
		was := seen[r.String()]
		seen[r.String()] = true
		return was
	})
}
