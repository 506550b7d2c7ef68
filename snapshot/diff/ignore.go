package diff

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultIgnore returns the paths that Compare ignores if Options.Ignore is nil: fields that change with every write.
func DefaultIgnore() []string {
	return []string{"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"}
}

type paths [][]string

func parsePaths(texts []string) (paths, error) {
	var out paths
	for _, text := range texts {
		p, ok := parsePath(text)
		if !ok {
			return nil, fmt.Errorf("path %q: write it as status.phase, metadata.annotations[\"a.b/c\"], "+
				"or spec.items[*].name", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// parsePath parses a path of names separated by dots (metadata.managedFields). A name with dots is in brackets and
// quotes (metadata.annotations["a.b/c"]). [*] stands for the items of a list, and may be omitted.
func parsePath(text string) (path []string, ok bool) {
	if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") {
		text = "." + text
	}
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "[*]"); ok {
			text = rest
			continue
		}
		var name string
		if rest, ok := strings.CutPrefix(text, "."); ok {
			name = rest
			if end := strings.IndexAny(rest, ".["); end >= 0 {
				name = rest[:end]
			}
			if text = rest[len(name):]; strings.ContainsAny(name, `*/"]`) {
				return nil, false
			}
		} else {
			quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(text, "["))
			if err != nil {
				return nil, false
			}
			if text, ok = strings.CutPrefix(text, "["+quoted+"]"); !ok {
				return nil, false
			}
			if name, err = strconv.Unquote(quoted); err != nil {
				return nil, false
			}
		}
		if name == "" {
			return nil, false
		}
		path = append(path, name)
	}
	return path, len(path) > 0
}

func (p paths) remove(object map[string]any) {
	for _, path := range p {
		removePath(object, path)
	}
}

// removePath removes the field at path from the JSON value v, or from all items if v is a list.
func removePath(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
		} else {
			removePath(v[path[0]], path[1:])
		}
	case []any:
		for _, item := range v {
			removePath(item, path)
		}
	}
}
