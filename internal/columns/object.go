package columns

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// object is an object, or a map in an object, as unstructured content. Its methods take a path of field names. They
// return the zero value if the value at the path is missing or of another type.
type object map[string]any

func (o object) at(path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...) // v is nil if a part of the path is no map
	return v
}

func (o object) has(path ...string) bool { return o.at(path...) != nil }

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

func (o object) flag(path ...string) bool {
	b, _ := o.at(path...).(bool)
	return b
}

func (o object) number(path ...string) int64 {
	switch n := o.at(path...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// scalar returns the number, string or bool at a path as text, and missing if there is no such value. It is used for
// fields such as an IntOrString.
func (o object) scalar(missing string, path ...string) string {
	switch v := o.at(path...).(type) {
	case string, int64, float64, bool:
		return fmt.Sprint(v)
	}
	return missing
}

func (o object) child(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return m
}

func (o object) size(path ...string) int {
	switch v := o.at(path...).(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case string:
		return len(v)
	}
	return 0
}

// list returns the elements of the list at a path. An element that is no object becomes nil, so positions are
// unchanged.
func (o object) list(path ...string) []object {
	items, _ := o.at(path...).([]any)
	all := make([]object, len(items))
	for i, item := range items {
		all[i], _ = item.(map[string]any)
	}
	return all
}

func (o object) texts(path ...string) []string {
	items, _ := o.at(path...).([]any)
	var all []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (o object) labels(path ...string) map[string]string {
	all := map[string]string{}
	for name, value := range o.child(path...) {
		if s, ok := value.(string); ok {
			all[name] = s
		}
	}
	return all
}

func (o object) time(path ...string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, o.text(path...)) // t is zero for an invalid time, as for a missing time
	return t
}

func (o object) quantity(path ...string) string {
	q, err := resource.ParseQuantity(o.scalar("0", path...))
	if err != nil {
		return "0"
	}
	return q.String()
}

func (o object) condition(name string) object {
	for _, c := range o.list("status", "conditions") {
		if c.text("type") == name {
			return c
		}
	}
	return nil
}

func (o object) isTrue(condition string) bool { return o.condition(condition).text("status") == "True" }

func (o object) name() string { return o.text("metadata", "name") }

func (o object) annotation(name string) (string, bool) {
	s, ok := o.at("metadata", "annotations", name).(string)
	return s, ok
}

func (o object) deleted() bool { return o.has("metadata", "deletionTimestamp") }

func (o object) age(now time.Time) string { return Age(now, o.time("metadata", "creationTimestamp")) }

// selector returns the label selector at a path in the form that kubectl get -o wide prints.
func (o object) selector(path ...string) string {
	s := o.labelSelector(path...)
	if s == nil {
		return none
	}
	return metav1.FormatLabelSelector(s)
}

func (o object) labelSelector(path ...string) *metav1.LabelSelector {
	var s metav1.LabelSelector
	m := o.child(path...)
	if m == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(m, &s) != nil {
		return nil
	}
	return &s
}

const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

func or(s, missing string) string {
	if s == "" {
		return missing
	}
	return s
}

func formatLabels(all map[string]string) string { return labels.FormatLabels(all) }

// Age returns the time from t to now as kubectl prints ages. A time in the future counts as now, because the clock may
// have been set back.
func Age(now, t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return elapsed(t, now)
}

func elapsed(from, to time.Time) string { return duration.HumanDuration(max(0, to.Sub(from))) }

// few joins the first most strings of all, and adds the number of the others. It returns missing if all is empty.
func few(all []string, most int, missing string) string {
	if len(all) <= most {
		return or(strings.Join(all, ","), missing)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ","), len(all)-most)
}

func containers(spec object) (names, images string) {
	var n, i []string
	for _, c := range spec.list("containers") {
		n, i = append(n, c.text("name")), append(i, c.text("image"))
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
