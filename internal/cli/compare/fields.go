package compare

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// Hidden is printed instead of a confidential value.
const Hidden = "***"

// Field is one difference between two states of an object.
type Field struct {
	// Path is the path of the field, such as spec.template.spec.containers[name=web]; an empty path is the whole object.
	Path string
	// Before and After are the old and the new value as lines of YAML. Before is empty for an added field, After for a
	// removed field.
	Before, After []string
}

type fieldDiff struct {
	// conceals reports whether the values at a path are confidential. nil: no value is confidential.
	conceals func(path []string) bool
	changes  []Field
}

// Fields returns the differences between two states of an object, in the order of field names and of lists. conceals
// reports whether the values at a path are confidential; nil shows all values.
func Fields(before, after map[string]any, conceals func(path []string) bool) []Field {
	d := fieldDiff{conceals: conceals}
	d.maps(nil, before, after)
	return d.changes
}

func (d *fieldDiff) maps(path []string, before, after map[string]any) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		old, had := before[name]
		now, has := after[name]
		if had && has && reflect.DeepEqual(old, now) {
			continue
		}
		d.field(path, name, old, now, had, has)
	}
}

// field compares one field of a map. had and has say whether the old and the new map contain the field.
func (d *fieldDiff) field(path []string, name string, old, now any, had, has bool) {
	inner := append(path[:len(path):len(path)], name)
	if old, ok := old.(map[string]any); ok {
		// The maps are compared field by field, since names of fields are shown even where their values are confidential.
		if now, ok := now.(map[string]any); ok {
			d.maps(inner, old, now)
			return
		}
	}
	if had && has && !d.concealed(inner) {
		switch old := old.(type) {
		case []any:
			if now, ok := now.([]any); ok {
				d.lists(inner, old, now)
				return
			}
		case string:
			if now, ok := now.(string); ok && strings.Contains(old, "\n") && strings.Contains(now, "\n") {
				d.texts(inner, old, now)
				return
			}
		}
	}
	var before, after []string
	if had {
		before = d.yaml(inner, map[string]any{name: old}, name)
	}
	if has {
		after = d.yaml(inner, map[string]any{name: now}, name)
	}
	d.add(path, before, after)
}

var listKeys = []string{
	"name", "key", "type", "containerPort", "port", "mountPath", "devicePath", "ip", "uid", "topologyKey",
}

// lists compares two lists. If all items are maps with an identifying field such as name, items with the same value are
// compared. Otherwise the items between the common beginning and the common end differ.
func (d *fieldDiff) lists(path []string, before, after []any) {
	for _, key := range listKeys {
		old, ok := itemsBy(key, before)
		now, also := itemsBy(key, after)
		if !ok || !also {
			continue
		}
		reported := len(d.changes)
		for _, item := range before {
			id := item.(map[string]any)[key]
			inner := itemPath(path, fmt.Sprintf("%s=%v", key, id))
			if other, there := now[id]; there {
				d.maps(inner, item.(map[string]any), other)
			} else {
				d.add(path, d.yaml(inner, []any{item}, ""), nil)
			}
		}
		for _, item := range after {
			id := item.(map[string]any)[key]
			if _, there := old[id]; !there {
				d.add(path, nil, d.yaml(itemPath(path, fmt.Sprintf("%s=%v", key, id)), []any{item}, ""))
			}
		}
		if len(d.changes) == reported { // the items are equal, so only their order differs
			d.add(path, order(key, before), order(key, after))
		}
		return
	}
	first, last := common(before, after)
	before, after = before[first:len(before)-last], after[first:len(after)-last]
	if len(before) == len(after) && allMaps(before) && allMaps(after) {
		for i := range before {
			d.maps(itemPath(path, strconv.Itoa(first+i)), before[i].(map[string]any), after[i].(map[string]any))
		}
		return
	}
	d.add(path, d.yaml(path, before, ""), d.yaml(path, after, ""))
}

// order returns the values of the identifying field of a list's items, in the list's order, as lines of YAML.
func order(key string, items []any) (lines []string) {
	for _, item := range items {
		lines = append(lines, fmt.Sprintf("- %s: %v", key, item.(map[string]any)[key]))
	}
	return lines
}

// itemsBy indexes the items of a list by the value of a field. It returns false unless every item has the field and all
// values differ.
func itemsBy(key string, items []any) (map[any]map[string]any, bool) {
	by := map[any]map[string]any{}
	for _, item := range items {
		m, _ := item.(map[string]any)
		switch id := m[key].(type) {
		case string, int64, float64:
			by[id] = m
		default:
			return nil, false
		}
	}
	return by, len(by) == len(items)
}

func allMaps(items []any) bool {
	return !slices.ContainsFunc(items, func(item any) bool {
		_, ok := item.(map[string]any)
		return !ok
	})
}

func common[T any](a, b []T) (first, last int) {
	n := min(len(a), len(b))
	for first < n && reflect.DeepEqual(a[first], b[first]) {
		first++
	}
	for last < n-first && reflect.DeepEqual(a[len(a)-1-last], b[len(b)-1-last]) {
		last++
	}
	return first, last
}

func (d *fieldDiff) texts(path []string, before, after string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	first, last := common(a, b)
	d.add(path, a[first:len(a)-last], b[first:len(b)-last])
}

func (d *fieldDiff) concealed(path []string) bool { return d.conceals != nil && d.conceals(path) }

// yaml returns the value at a path as lines of YAML. name is the field that holds the value; empty for an item of a
// list.
func (d *fieldDiff) yaml(path []string, value any, name string) []string {
	if d.concealed(path) {
		if name == "" {
			return []string{"- " + Hidden}
		}
		return []string{name + ": " + Hidden}
	}
	if list, ok := value.([]any); ok && len(list) == 0 {
		return nil
	}
	text, err := command.ToYAML(value)
	if err != nil {
		return []string{fmt.Sprint(value)}
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func (d *fieldDiff) add(path []string, before, after []string) {
	d.changes = append(d.changes, Field{pathText(path), before, after})
}

func itemPath(path []string, item string) []string {
	return append(path[:len(path):len(path)], "["+item+"]")
}

// pathText formats a path in the syntax of --ignore, with list items identified by a field.
func pathText(path []string) string {
	var b strings.Builder
	for _, element := range path {
		switch {
		case strings.HasPrefix(element, "["):
			b.WriteString(element)
		case strings.ContainsAny(element, ".[]\"/ "):
			b.WriteString("[" + strconv.Quote(element) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(element)
		}
	}
	return b.String()
}

// ChangedFields returns the fields that differ between the old and the new state of a changed object. Confidential
// values are replaced by Hidden.
func ChangedFields(c diff.Change) []Field {
	fields := Fields(c.Before.Object, c.After.Object, Concealed(c.Collection))
	if c.Kind == diff.Replaced {
		fields = slices.DeleteFunc(fields, isRecreated)
	}
	return fields
}

// isRecreated reports whether f is a field, such as the uid, that always differs after an object was deleted and
// created again.
func isRecreated(f Field) bool {
	is := func(lines []string) bool {
		return len(lines) == 1 && (strings.HasPrefix(lines[0], "uid: ") || strings.HasPrefix(lines[0], "creationTimestamp: "))
	}
	return f.Path == "metadata" && is(f.Before) && is(f.After)
}

// Concealed returns a function that reports whether the value at a path is confidential in objects of the collection c.
// It returns nil if no value of c is confidential.
func Concealed(c snapshot.Collection) func(path []string) bool {
	switch {
	case c.Confidential() == "":
		return nil
	case c.Identity.GroupResource() != input.Secrets.GroupResource():
		// The store encrypts the objects of a resource other than Secrets: every value is confidential.
		return func([]string) bool { return true }
	}
	return func(path []string) bool {
		annotations := len(path) > 1 && path[0] == "metadata" && path[1] == "annotations"
		return path[0] == "data" || path[0] == "stringData" || annotations
	}
}
