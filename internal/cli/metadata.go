package cli

import "maps"

// withMetadata returns the object with metadata that change has changed. The object itself, which is shared, stays as
// it is.
func withMetadata(object map[string]any, change func(map[string]any)) map[string]any {
	object = maps.Clone(object)
	if meta, ok := object["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		change(meta)
		object["metadata"] = meta
	}
	return object
}
