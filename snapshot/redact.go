package snapshot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// redactedText replaces a redacted value, and redactedData one in a field that has base64.
const redactedText = "REDACTED"

var redactedData = base64.StdEncoding.EncodeToString([]byte(redactedText))

// redactedValues is the entry in Collection.Redacted for Secrets and ConfigMaps whose values were replaced.
const redactedValues = "values of data"

// SecretsRedacted reports whether c has Secrets whose values Redaction.Secrets has replaced, so that they may be
// written in plain text.
func (c Collection) SecretsRedacted() bool {
	return c.Identity.GroupResource() == secrets && slices.Contains(c.Redacted, redactedValues)
}

// lastApplied is the annotation that has a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Redaction says which values in objects are replaced by REDACTED. Its zero value replaces none.
//
// In patterns * matches any text and ? one character; case does not count. The annotation
// kubectl.kubernetes.io/last-applied-configuration, which has a copy of the object, is redacted if Secrets or
// ConfigMaps apply, if anything else in the object is redacted, or if it has an environment variable or an annotation
// that matches a pattern. The same holds for objects within the object.
type Redaction struct {
	// Secrets and ConfigMaps redact the values in data, stringData and binaryData of these kinds. Their names stay.
	Secrets    bool `json:"secrets,omitempty"`
	ConfigMaps bool `json:"configMaps,omitempty"`
	// Annotations has patterns of the annotations whose values are redacted, also in pod templates and the like.
	Annotations []string `json:"annotations,omitempty"`
	// Env has patterns of the environment variables whose values are redacted, in any field env that has names and values,
	// or texts NAME=value: in pods, pod templates, and custom resources.
	Env []string `json:"env,omitempty"`
	// ManagedFields removes metadata.managedFields.
	ManagedFields bool `json:"managedFields,omitempty"`
}

// Empty reports whether r replaces nothing.
func (r Redaction) Empty() bool {
	return !r.Secrets && !r.ConfigMaps && len(r.Annotations) == 0 && len(r.Env) == 0 && !r.ManagedFields
}

// redaction is a parsed Redaction for one resource.
type redaction struct {
	data          map[string]string // fields whose values are replaced, with the replacement; nil for none
	managedFields bool
	annotations   *regexp.Regexp // nil for none
	env           *regexp.Regexp // nil for none
	described     []string
}

// newRedaction returns nil if r redacts nothing of the resource.
func newRedaction(r Redaction, resource schema.GroupResource) (*redaction, error) {
	out := &redaction{managedFields: r.ManagedFields}
	var err error
	if out.annotations, err = compilePatterns(r.Annotations); err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}
	if out.env, err = compilePatterns(r.Env); err != nil {
		return nil, fmt.Errorf("environment variables: %w", err)
	}
	switch {
	case r.Secrets && resource == schema.GroupResource{Resource: "secrets"}:
		out.data = map[string]string{"data": redactedData, "stringData": redactedText}
	case r.ConfigMaps && resource == schema.GroupResource{Resource: "configmaps"}:
		out.data = map[string]string{"data": redactedText, "binaryData": redactedData}
	}
	if out.data != nil {
		out.described = append(out.described, redactedValues)
	}
	if out.annotations != nil {
		out.described = append(out.described, "annotations "+strings.Join(r.Annotations, ", "))
	}
	if out.env != nil {
		out.described = append(out.described, "environment variables "+strings.Join(r.Env, ", "))
	}
	if out.managedFields {
		out.described = append(out.described, "managedFields")
	}
	if len(out.described) == 0 {
		return nil, nil
	}
	return out, nil
}

// compilePatterns returns an expression that matches any of the patterns, or nil if there are none.
func compilePatterns(patterns []string) (*regexp.Regexp, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var parts []string
	for _, p := range patterns {
		if p == "" {
			return nil, fmt.Errorf("a pattern is empty; * stands for all")
		}
		q := regexp.QuoteMeta(p)
		q = strings.ReplaceAll(strings.ReplaceAll(q, `\*`, ".*"), `\?`, ".")
		parts = append(parts, q)
	}
	return regexp.Compile("(?is)^(?:" + strings.Join(parts, "|") + ")$")
}

// apply redacts an object in place, and returns whether it has changed.
func (r *redaction) apply(object map[string]any) (changed bool) {
	metadata, _ := object["metadata"].(map[string]any)
	changed = r.walk(object)
	for field, replacement := range r.data {
		changed = redactValues(object, field, replacement) || changed
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if v, ok := annotations[lastApplied]; ok && v != redactedText && (changed || r.data != nil || r.concerns(v)) {
		annotations[lastApplied] = redactedText
		changed = true
	}
	if _, ok := metadata["managedFields"]; ok && r.managedFields {
		delete(metadata, "managedFields")
		changed = true
	}
	return changed
}

// concerns reports whether the object in the annotation lastApplied has anything to redact, or cannot be read.
func (r *redaction) concerns(text any) bool {
	if r.annotations == nil && r.env == nil {
		return false
	}
	s, ok := text.(string)
	var object map[string]any
	if !ok || json.Unmarshal([]byte(s), &object) != nil {
		return true
	}
	return r.walk(object)
}

// walk redacts annotations and environment variables in a value and all below it.
func (r *redaction) walk(v any) (changed bool) {
	if r.annotations == nil && r.env == nil {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			switch name {
			case "annotations":
				changed = r.walkAnnotations(field) || changed
			case "env":
				changed = r.walkEnv(field) || changed
			}
			changed = r.walk(field) || changed
		}
	case []any:
		for _, item := range v {
			changed = r.walk(item) || changed
		}
	}
	return changed
}

func (r *redaction) walkAnnotations(v any) (changed bool) {
	annotations, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range annotations {
		if r.annotations != nil && r.annotations.MatchString(name) || name == lastApplied && value != any(redactedText) &&
			r.concerns(value) {
			changed = redactAt(annotations, name, redactedText) || changed
		}
	}
	return changed
}

func (r *redaction) walkEnv(v any) (changed bool) {
	if r.env == nil {
		return false
	}
	if byName, ok := v.(map[string]any); ok {
		for name, value := range byName {
			switch value.(type) {
			case map[string]any, []any: // no value of a variable
			default:
				if r.env.MatchString(name) {
					changed = redactAt(byName, name, redactedText) || changed
				}
			}
		}
		return changed
	}
	list, _ := v.([]any)
	for i, item := range list {
		if text, ok := item.(string); ok { // NAME=value, as in custom resources
			name, value, ok := strings.Cut(text, "=")
			if ok && value != redactedText && r.env.MatchString(name) {
				list[i], changed = name+"="+redactedText, true
			}
			continue
		}
		variable, _ := item.(map[string]any)
		if name, _ := variable["name"].(string); name != "" && r.env.MatchString(name) {
			changed = redactAt(variable, "value", redactedText) || changed
		}
	}
	return changed
}

// redactValues replaces all values of a field that is a map.
func redactValues(object map[string]any, field, replacement string) (changed bool) {
	switch values := object[field].(type) {
	case map[string]any:
		for name := range values {
			changed = redactAt(values, name, replacement) || changed
		}
	case nil:
	default: // not what the type has
		object[field] = map[string]any{}
		changed = true
	}
	return changed
}

// redactAt replaces a value, unless it is absent or equal to the replacement, and returns whether it did.
func redactAt(m map[string]any, name, replacement string) bool {
	v, ok := m[name]
	if !ok || v == any(replacement) || v == nil {
		return false
	}
	m[name] = replacement
	return true
}
