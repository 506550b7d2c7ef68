package contract

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is a normalised answer: a tree of encoding/json values and ages, without parts that differ between answers of
// one server. Plausible numbers that vary become placeholders.
type Answer map[string]any

type age time.Duration

// changing are HTTP headers that differ between answers of one server or come from the transport. They are not
// compared.
var changing = []string{"Date", "Audit-Id", "Content-Length", "X-Kubernetes-Pf-Flowschema-Uid",
	"X-Kubernetes-Pf-Prioritylevel-Uid"}

// shapes are HTTP headers of which only the format is compared, by a regular expression.
var shapes = map[string]*regexp.Regexp{
	"Last-Modified": regexp.MustCompile(`^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`),
	"Expires":       regexp.MustCompile(`^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d UTC$`),
	"Etag":          regexp.MustCompile(`^"[0-9A-F]{128}"$`),
}

func normal(r Request, resp response) Answer {
	if resp.err != nil {
		return Answer{"error": resp.err.Error()}
	}
	headers := map[string]any{}
	for name, values := range resp.header {
		value := strings.Join(values, " | ")
		if shape := shapes[name]; shape != nil && shape.MatchString(value) {
			value = name
		}
		if !slices.Contains(changing, name) {
			headers[name] = value
		}
	}
	a := Answer{"status": resp.status, "header": headers}
	contentType := resp.header.Get("Content-Type")
	if resp.status == http.StatusOK && r.Watch() && !strings.HasPrefix(contentType, "text/") {
		events, err := parseEvents(contentType, resp.body)
		if err != nil {
			return Answer{"error": err.Error()}
		}
		a["events"] = normalEvents(events)
		return a
	}
	if len(resp.body) > 256<<10 && strings.HasPrefix(r.Path, "/openapi/") {
		a["body"] = fmt.Sprintf("%x", digest(resp.body))
		return a
	}
	body, err := parse(contentType, resp.body)
	if err != nil {
		return Answer{"error": fmt.Sprintf("%s: %v", contentType, err)}
	}
	a["body"] = normalBody(r, body)
	if resp.status == http.StatusOK && strings.HasPrefix(contentType, "application/json") {
		a["indented"] = bytes.Contains(resp.body, []byte("\n  "))
	}
	return a
}

func digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func normalBody(r Request, body any) any {
	object, ok := body.(map[string]any)
	if !ok {
		return body
	}
	kind, _ := object["kind"].(string)
	switch {
	case kind == "Status":
		normalStatus(object)
	case kind == "Table":
		normalRows(object, columnsOf(object))
		if !named(r.Path) {
			normalListMeta(r, object, "rows")
		}
	case strings.HasPrefix(r.Path, "/openapi/v3"):
		return object
	case slices.Contains([]string{"APIVersions", "APIGroupList", "APIGroup", "APIResourceList", "APIGroupDiscoveryList"},
		kind), object["paths"] != nil:
		return normalDiscovery(object)
	case strings.HasSuffix(kind, "Review"):
		delete(object, "metadata") // these parts are generated for each answer: managed fields, times
	case strings.HasSuffix(kind, "List"), kind == "GadgetSet": // GadgetSet is the listKind of the gadgets
		normalListMeta(r, object, "items")
		if items, ok := object["items"].([]any); ok {
			object["items"] = byKey(items, keyOf)
		}
	}
	return object
}

var (
	currentRV = regexp.MustCompile(`current: \d+`)
	tooOldRV  = regexp.MustCompile(`(too old resource version: \d+) \(\d+\)`)
)

func normalStatus(object map[string]any) {
	message, _ := object["message"].(string)
	message = currentRV.ReplaceAllString(message, "current: RV")
	object["message"] = tooOldRV.ReplaceAllString(message, "$1 (RV)")
	if meta, ok := object["metadata"].(map[string]any); ok && meta["continue"] != nil {
		meta["continue"] = "TOKEN"
	}
}

// normalListMeta replaces a list's resourceVersion by a text that says whether it satisfies the request's
// resourceVersion. It replaces a continue token by a placeholder, because the requests for further pages test the
// token.
func normalListMeta(r Request, object map[string]any, items string) {
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	if token, ok := meta["continue"].(string); ok && token != "" {
		meta["continue"] = "TOKEN"
	}
	rv, _ := meta["resourceVersion"].(string)
	asked := number(r.value("resourceVersion"))
	var newest uint64
	list, _ := object[items].([]any)
	for _, item := range list {
		newest = max(newest, number(versionOf(item)))
	}
	switch n := number(rv); {
	case r.Exact():
		// The request wants the state at exactly one resourceVersion, so the answer's resourceVersion is compared unchanged.
	case rv == "", n < asked:
		meta["resourceVersion"] = fmt.Sprintf("%q, below %d, which was asked for", rv, asked)
	case n < newest:
		meta["resourceVersion"] = fmt.Sprintf("%q, below that of an item, %d", rv, newest)
	default:
		meta["resourceVersion"] = "RV"
	}
}

func versionOf(item any) string {
	object, _ := item.(map[string]any)
	if of, ok := object["object"].(map[string]any); ok {
		object = of
	}
	meta, _ := object["metadata"].(map[string]any)
	rv, _ := meta["resourceVersion"].(string)
	return rv
}

func number(rv string) uint64 {
	n, _ := strconv.ParseUint(rv, 10, 64)
	return n
}

const order = "order of items"

// byKey turns a list into a map by key, so that a missing item is one difference and does not shift all later items.
// The map also has the keys in their order.
func byKey(items []any, key func(any) string) any {
	keyed := map[string]any{}
	var keys []any
	for _, item := range items {
		k := key(item)
		if _, ok := keyed[k]; ok || k == "" {
			return items // items without unique keys are compared as a list
		}
		keyed[k] = item
		keys = append(keys, k)
	}
	if len(items) == 0 {
		return items
	}
	keyed[order] = keys
	return keyed
}

func keyOf(item any) string {
	object, _ := item.(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

func columnsOf(table map[string]any) (ages []bool) {
	definitions, _ := table["columnDefinitions"].([]any)
	for _, d := range definitions {
		column, _ := d.(map[string]any)
		ages = append(ages, column["type"] == "date" || column["name"] == "Age" || column["name"] == "Last Seen" ||
			column["name"] == "First Seen")
	}
	return ages
}

func normalRows(table map[string]any, ages []bool) {
	rows, _ := table["rows"].([]any)
	for _, r := range rows {
		row, _ := r.(map[string]any)
		cells, _ := row["cells"].([]any)
		for i, cell := range cells {
			text, ok := cell.(string)
			if !ok || i >= len(ages) || !ages[i] {
				continue
			}
			if d, err := parseAge(text); err == nil {
				cells[i] = d
			}
		}
	}
}

var agePart = regexp.MustCompile(`^(\d+)([ydhms])`)

func parseAge(text string) (age, error) {
	units := map[string]time.Duration{"y": 365 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour,
		"m": time.Minute, "s": time.Second}
	var total time.Duration
	if text == "" {
		return 0, fmt.Errorf("no age")
	}
	for text != "" {
		part := agePart.FindStringSubmatch(text)
		if part == nil {
			return 0, fmt.Errorf("no age: %q", text)
		}
		n, err := strconv.Atoi(part[1])
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * units[part[2]]
		text = text[len(part[0]):]
	}
	return age(total), nil
}

// normalEvents removes periodic bookmarks from a watch's events, and the resourceVersion from the bookmark that ends
// the initial events. It marks an event whose resourceVersion goes backwards by an additional field.
func normalEvents(events []any) any {
	kept := []any{}
	var ages []bool
	var last uint64
	initial := true // true during the initial events, whose resourceVersions need not ascend
	for i, e := range events {
		event, _ := e.(map[string]any)
		object, _ := event["object"].(map[string]any)
		if object == nil {
			kept = append(kept, e)
			continue
		}
		if i == 0 {
			ages = columnsOf(object)
		}
		switch event["type"] {
		case "ERROR":
			normalStatus(object)
		case "BOOKMARK":
			rv := number(versionOf(object))
			if rv < last {
				event["order"] = fmt.Sprintf("a bookmark at %d behind an event at %d", rv, last)
			}
			if !ends(object) && event["order"] == nil {
				continue
			}
			setVersion(object)
			initial = false
		case "ADDED":
			if rv := number(versionOf(object)); !initial && rv <= last {
				event["order"] = "resourceVersions do not ascend"
			}
		default:
			initial = false
		}
		last = max(last, number(versionOf(object)))
		if object["kind"] == "Table" {
			normalRows(object, ages)
		}
		kept = append(kept, event)
	}
	return byKey(kept, eventKey)
}

// eventKey identifies an event within its watch. Rows of a Table may lack an object, but have a resourceVersion.
func eventKey(e any) string {
	event, _ := e.(map[string]any)
	if event["type"] == "BOOKMARK" {
		return "BOOKMARK" // all bookmarks without the annotation were removed
	}
	object, _ := event["object"].(map[string]any)
	key := keyOf(object)
	if rows, ok := object["rows"].([]any); ok && len(rows) == 1 {
		row, _ := rows[0].(map[string]any)
		key = keyOf(row["object"])
	}
	return fmt.Sprintf("%v %s %s", event["type"], key, versionOf(object))
}

func ends(object map[string]any) bool {
	for _, o := range tableObjects(object) {
		meta, _ := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations[metav1.InitialEventsAnnotationKey] == "true" {
			return true
		}
	}
	return false
}

func setVersion(object map[string]any) {
	for _, o := range append(tableObjects(object), object) {
		if meta, ok := o["metadata"].(map[string]any); ok && number(fmt.Sprint(meta["resourceVersion"])) > 0 {
			meta["resourceVersion"] = "RV"
		}
	}
}

func tableObjects(object map[string]any) []map[string]any {
	if object["kind"] != "Table" {
		return []map[string]any{object}
	}
	var all []map[string]any
	rows, _ := object["rows"].([]any)
	for _, r := range rows {
		row, _ := r.(map[string]any)
		if o, ok := row["object"].(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}

// normalDiscovery turns the lists of a discovery document into maps by name, and removes the server's address.
func normalDiscovery(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = normalDiscovery(value)
		}
		if resources, ok := v["resources"].(map[string]any); ok {
			delete(resources, order) // the order is arbitrary for custom resources
		}
		if v["serverAddress"] != nil {
			v["serverAddress"] = "ADDRESS"
		}
		return v
	case []any:
		for i := range v {
			v[i] = normalDiscovery(v[i])
		}
		return byKey(v, func(item any) string {
			if text, ok := item.(string); ok {
				return text
			}
			object, _ := item.(map[string]any)
			for _, name := range []string{"name", "groupVersion", "version", "resource", "subresource"} {
				if text, ok := object[name].(string); ok && text != "" {
					return text
				}
			}
			return strings.TrimPrefix(keyOf(item), "/")
		})
	default:
		return v
	}
}
