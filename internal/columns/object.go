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

// object is a part of an object's content. Its methods take a path of field names, and return the zero value where
// there is nothing of that type.
type object map[string]any

func (o object) at(path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...) // nil if something on the way is no map
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

// scalar is a number or a text, as of an IntOrString, or missing where there is none.
func (o object) scalar(missing string, path ...string) string {
	switch v := o.at(path...).(type) {
	case string, int64, float64, bool:
		return fmt.Sprint(v)
	}
	return missing
}

// child is an object inside; nil, which has nothing, where there is none.
func (o object) child(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return m
}

// size is the length of a list or of a map.
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

// list is the objects of a list. What is none is nil, so that positions stay.
func (o object) list(path ...string) []object {
	items, _ := o.at(path...).([]any)
	all := make([]object, len(items))
	for i, item := range items {
		all[i], _ = item.(map[string]any)
	}
	return all
}

// texts is the texts of a list.
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

// labels is a map of texts.
func (o object) labels(path ...string) map[string]string {
	all := map[string]string{}
	for name, value := range o.child(path...) {
		if s, ok := value.(string); ok {
			all[name] = s
		}
	}
	return all
}

// time is zero where there is none.
func (o object) time(path ...string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, o.text(path...)) // none is as good as a wrong one
	return t
}

// quantity is in canonical form; 0 where there is none.
func (o object) quantity(path ...string) string {
	q, err := resource.ParseQuantity(o.scalar("0", path...))
	if err != nil {
		return "0"
	}
	return q.String()
}

// condition is the one of that type in status.conditions.
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

// selector is a label selector as `kubectl get -o wide` shows it.
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

// What is printed where there is nothing to print.
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

// Age is how long before now t was, as kubectl writes it. What is in the future, since a clock has been set back, was
// just now.
func Age(now, t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return elapsed(t, now)
}

func elapsed(from, to time.Time) string { return duration.HumanDuration(max(0, to.Sub(from))) }

// few joins the first of them, and says how many more there are; missing if there is none.
func few(all []string, most int, missing string) string {
	if len(all) <= most {
		return or(strings.Join(all, ","), missing)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ","), len(all)-most)
}

// containers are the names and images of a pod template's containers.
func containers(spec object) (names, images string) {
	var n, i []string
	for _, c := range spec.list("containers") {
		n, i = append(n, c.text("name")), append(i, c.text("image"))
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
