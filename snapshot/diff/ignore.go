package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultIgnore returns the paths that Compare ignores if Options.Ignore is nil: fields that change with every write.
func DefaultIgnore() []string {
	return []string{"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"}
}

// paths has the ignored fields, each as its segments.
type paths [][]string

// parsePaths reads paths: dotted (metadata.managedFields), where a name that has dots is in brackets and quotes
// (metadata.annotations["a.b/c"]), or JSON pointers (/metadata/annotations/a.b~1c). * is every field or item.
func parsePaths(texts []string) (paths, error) {
	var out paths
	for _, text := range texts {
		p, ok := parsePath(text)
		if !ok {
			return nil,
				fmt.Errorf(
					`path %q: write it as status.phase, metadata.annotations["a.b/c"], `+
						`spec.items[*].name or /metadata/annotations/a.b~1c`, text)
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePath(text string) (path []string, ok bool) {
	if rest, ok := strings.CutPrefix(text, "/"); ok {
		for _, s := range strings.Split(rest, "/") {
			name := strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
			if strings.Count(s, "~0")+strings.Count(s, "~1") != strings.Count(s, "~") { // RFC 6901 has no others
				return nil, false
			}
			path = append(path, name)
		}
		return path, true
	}
	rest := strings.TrimPrefix(text, ".")
	for rest != "" {
		var segment string
		if segment, rest, ok = cutSegment(rest, len(path) == 0); !ok {
			return nil, false
		}
		path = append(path, segment)
	}
	return path, len(path) > 0
}

// cutSegment takes the first segment off a dotted path.
func cutSegment(text string, first bool) (segment, rest string, ok bool) {
	if inside, ok := strings.CutPrefix(text, "["); ok {
		if strings.HasPrefix(inside, `"`) {
			quoted, err := strconv.QuotedPrefix(inside)
			if err != nil {
				return "", "", false
			}
			segment, err = strconv.Unquote(quoted)
			rest, ok = strings.CutPrefix(inside[len(quoted):], "]")
			return segment, rest, ok && err == nil
		}
		segment, rest, ok = strings.Cut(inside, "]")
		return segment, rest, ok && segment != ""
	}
	if !first {
		if text, ok = strings.CutPrefix(text, "."); !ok {
			return "", "", false
		}
	}
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], end > 0
}

// remove removes the paths from an object.
func (p paths) remove(object map[string]any) {
	for _, path := range p {
		removePath(object, path)
	}
}

// removePath removes the value at path, which must have at least one segment, from v. It returns v, or a new list if
// items of the list v were removed.
func removePath(v any, path []string) any {
	switch v := v.(type) {
	case map[string]any:
		removeField(v, path)
	case []any:
		return removeItem(v, path)
	}
	return v
}

func removeField(m map[string]any, path []string) {
	last := len(path) == 1
	switch {
	case path[0] == "*" && last:
		clear(m)
	case path[0] == "*":
		for name, field := range m {
			m[name] = removePath(field, path[1:])
		}
	case last:
		delete(m, path[0])
	default:
		if field, ok := m[path[0]]; ok {
			m[path[0]] = removePath(field, path[1:])
		}
	}
}

func removeItem(list []any, path []string) []any {
	last := len(path) == 1
	if path[0] == "*" {
		if last {
			return list[:0]
		}
		for i, item := range list {
			list[i] = removePath(item, path[1:])
		}
		return list
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || i < 0 || i >= len(list) {
		return list
	}
	if last {
		return slices.Delete(list, i, i+1)
	}
	list[i] = removePath(list[i], path[1:])
	return list
}
