package source

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// objectLabels reads an object's labels in place: GetLabels copies the map.
type objectLabels map[string]any

func labelsOf(u *unstructured.Unstructured) objectLabels {
	meta, _ := u.Object["metadata"].(map[string]any)
	l, _ := meta["labels"].(map[string]any)
	return l
}

// Has implements labels.Labels.
func (l objectLabels) Has(label string) bool {
	_, ok := l[label].(string)
	return ok
}

// Get implements labels.Labels.
func (l objectLabels) Get(label string) string {
	s, _ := l[label].(string)
	return s
}

// Lookup implements labels.Labels.
func (l objectLabels) Lookup(label string) (string, bool) {
	s, ok := l[label].(string)
	return s, ok
}
