package snapshot

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// redactedText replaces a redacted value. redactedData is the same text in base64, for fields that hold base64.
const redactedText = "REDACTED"

var redactedData = base64.StdEncoding.EncodeToString([]byte(redactedText))

// redactedValues is the entry in Collection.Redacted for Secrets and ConfigMaps whose values were replaced.
const redactedValues = "values of data"

// lastApplied is the annotation in which kubectl apply keeps a copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Redaction says which values in objects are replaced by REDACTED. Its zero value replaces none.
//
// In patterns * matches any text and ? one character; case does not count. The annotation
// kubectl.kubernetes.io/last-applied-configuration, a copy of the object, is redacted with any values of its resource.
// The same holds for objects within the object.
type Redaction struct {
	// Secrets and ConfigMaps redact the values in data, stringData and binaryData of these kinds. Their keys stay.
	Secrets    bool `json:"secrets,omitempty"`
	ConfigMaps bool `json:"configMaps,omitempty"`
	// Annotations has patterns of the annotations whose values are redacted, also in pod templates and the like.
	Annotations []string `json:"annotations,omitempty"`
	// Env has patterns of environment variables whose values are redacted. They are found in any field env of names and
	// values, or of texts NAME=value: in pods, pod templates and custom resources.
	Env []string `json:"env,omitempty"`
	// ManagedFields removes metadata.managedFields.
	ManagedFields bool `json:"managedFields,omitempty"`
}

// Empty reports whether r replaces nothing.
func (r Redaction) Empty() bool {
	return !r.Secrets && !r.ConfigMaps && len(r.Annotations) == 0 && len(r.Env) == 0 && !r.ManagedFields
}

// redaction is a parsed Redaction. The method of returns the rules for one resource.
type redaction struct {
	Redaction
	data             map[string]string // replacement by name of the field; nil if the resource has no such fields
	annotations, env *regexp.Regexp
}

func newRedaction(r Redaction) (out redaction, err error) {
	out.Redaction = r
	if out.annotations, err = compilePatterns(r.Annotations); err != nil {
		return out, fmt.Errorf("annotations: %w", err)
	}
	if out.env, err = compilePatterns(r.Env); err != nil {
		return out, fmt.Errorf("environment variables: %w", err)
	}
	return out, nil
}

// of returns the rules for one resource. Values in data are redacted only for Secrets and ConfigMaps.
func (r redaction) of(resource schema.GroupResource) redaction {
	switch {
	case r.Secrets && resource == secrets:
		r.data = map[string]string{"data": redactedData, "stringData": redactedText}
	case r.ConfigMaps && resource == schema.GroupResource{Resource: "configmaps"}:
		r.data = map[string]string{"data": redactedText, "binaryData": redactedData}
	}
	return r
}

// describe returns the kinds of values that r redacts, as text for people; nil if it redacts none.
func (r redaction) describe() (out []string) {
	if r.data != nil {
		out = append(out, redactedValues)
	}
	if r.annotations != nil {
		out = append(out, "annotations "+strings.Join(r.Annotations, ", "))
	}
	if r.env != nil {
		out = append(out, "environment variables "+strings.Join(r.Env, ", "))
	}
	if r.ManagedFields {
		out = append(out, "managedFields")
	}
	return out
}

// record redacts the object of a record, and encodes the object again only if that changed it.
func (r redaction) record(d *Decoder, rec *entry.Entry) error {
	u, err := d.decodeExactly(*rec)
	if err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	if r.apply(u.Object) {
		return d.encode(rec, u)
	}
	return nil
}

// compilePatterns returns one expression for all patterns with * and ?; nil without patterns.
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

func (r redaction) apply(object map[string]any) (changed bool) {
	if r.data != nil || r.annotations != nil || r.env != nil {
		changed = r.walk(object)
	}
	for field, replacement := range r.data {
		changed = redactValues(object, field, replacement) || changed
	}
	metadata, _ := object["metadata"].(map[string]any)
	if _, ok := metadata["managedFields"]; ok && r.ManagedFields {
		delete(metadata, "managedFields")
		changed = true
	}
	return changed
}

// walk redacts annotations and environment variables at any depth of a JSON value. It returns whether v changed.
func (r redaction) walk(v any) (changed bool) {
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

func (r redaction) walkAnnotations(v any) (changed bool) {
	annotations, _ := v.(map[string]any)
	for name := range annotations {
		if name == lastApplied || r.annotations != nil && r.annotations.MatchString(name) {
			changed = redactAt(annotations, name, redactedText) || changed
		}
	}
	return changed
}

func (r redaction) walkEnv(v any) (changed bool) {
	if r.env == nil {
		return false
	}
	if byName, ok := v.(map[string]any); ok {
		for name, value := range byName {
			switch value.(type) {
			case map[string]any, []any: // a map or list is not the value of an environment variable
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
		if text, ok := item.(string); ok { // NAME=value in one text, as some custom resources have it
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

func redactValues(object map[string]any, field, replacement string) (changed bool) {
	switch values := object[field].(type) {
	case map[string]any:
		for name := range values {
			changed = redactAt(values, name, replacement) || changed
		}
	case nil:
	default: // data must be a map, so the object is malformed: replace all of data
		object[field] = map[string]any{}
		changed = true
	}
	return changed
}

// redactAt replaces a value in a map. It returns false if the value is absent or null, or equals the replacement.
func redactAt(m map[string]any, name, replacement string) bool {
	v, ok := m[name]
	if !ok || v == any(replacement) || v == nil {
		return false
	}
	m[name] = replacement
	return true
}
