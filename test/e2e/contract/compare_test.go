package contract

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

type Difference struct {
	Request Request
	// Path leads to the difference in the answer, for example status, header.Vary, body.items[shop/web].spec or
	// events[0].object.
	Path string
	// Want is kube-apiserver's value, and Got is larder's. A missing value is absent{}.
	Want, Got any
}

type absent struct{}

func (absent) String() string { return "nothing" }

func (d Difference) String() string {
	return fmt.Sprintf("%s: want %s, got %s", d.Path, short(d.Want), short(d.Got))
}

// form describes the difference without its variable parts, so that similar differences have the same form.
func (d Difference) form() string {
	path := variable.ReplaceAllString(d.Path, "[]")
	switch {
	case path == "status":
		want, _, _ := strings.Cut(fmt.Sprint(d.Want), " ")
		got, _, _ := strings.Cut(fmt.Sprint(d.Got), " ")
		return fmt.Sprintf("status: want %s, got %s", want, got)
	case strings.HasPrefix(path, "header."):
		return d.String()
	case d.Want == absent{}:
		return path + ": want nothing"
	case d.Got == absent{}:
		return path + ": got nothing"
	}
	return path
}

var variable = regexp.MustCompile(`\[[^\]]*\]`)

func short(v any) string {
	text := strings.ReplaceAll(fmt.Sprintf("%v", v), "\n", " ")
	if s, ok := v.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if runes := []rune(text); len(runes) > 300 {
		text = string(runes[:300]) + "…"
	}
	return text
}

// compare returns all differences between two answers to a request. Answers with different statuses have a single
// difference. A server's error instead of an answer also counts as a difference.
func compare(r Request, want, got Answer) (all []Difference) {
	found := func(path string, want, got any) {
		all = append(all, Difference{Request: r, Path: strings.TrimPrefix(path, "."), Want: want, Got: got})
	}
	switch {
	case want["error"] != nil || got["error"] != nil:
		found("error", valueOr(want, "error"), valueOr(got, "error"))
	case want["status"] != got["status"]:
		found("status", want.summary(), got.summary())
	default:
		diff("", map[string]any(want), map[string]any(got), found)
	}
	return all
}

func (a Answer) summary() string {
	text := fmt.Sprint(a["status"])
	switch body := a["body"].(type) {
	case map[string]any:
		for _, name := range []string{"kind", "reason", "message"} {
			if s, ok := body[name].(string); ok && s != "Status" {
				text += " " + s
			}
		}
	case string:
		text += " " + strings.TrimSpace(body)
	}
	return text
}

func diff(path string, want, got any, found func(path string, want, got any)) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		names := slices.Sorted(maps.Keys(w))
		for name := range g {
			if _, both := w[name]; !both {
				names = append(names, name)
			}
		}
		for _, name := range names {
			at := path + "." + name
			switch {
			case name == order:
				diffOrder(at, w[order], g[order], found)
				continue
			case w[order] != nil || g[order] != nil || strings.HasSuffix(path, ".resources") || strings.ContainsAny(name, "./"):
				at = path + "[" + name + "]"
			}
			diff(at, valueOr(w, name), valueOr(g, name), found)
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) == 0 || len(w) == 0 {
			break
		}
		for i := range max(len(w), len(g)) {
			diff(fmt.Sprintf("%s[%d]", path, i), elementOr(w, i), elementOr(g, i), found)
		}
		return
	case age:
		if g, ok := got.(age); ok && near(w, g) {
			return
		}
	}
	if !reflect.DeepEqual(want, got) {
		found(path, want, got)
	}
}

// diffOrder calls found if the common keys of two lists are in different orders.
func diffOrder(path string, want, got any, found func(path string, want, got any)) {
	w, _ := want.([]any) // nil if the list is empty or its items have no keys
	g, _ := got.([]any)
	w = slices.DeleteFunc(slices.Clone(w), func(key any) bool { return !slices.Contains(g, key) })
	g = slices.DeleteFunc(slices.Clone(g), func(key any) bool { return !slices.Contains(w, key) })
	if !slices.Equal(w, g) {
		found(path, w, g)
	}
}

func valueOr(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

func elementOr(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// near reports whether two ages in Tables can be of the same object. The servers' answers were sent at different times,
// and ages in large units are rounded.
func near(a, b age) bool {
	const moment = patience
	between := time.Duration(max(a, b) - min(a, b))
	return between <= max(moment, time.Duration(max(a, b))/50)
}
