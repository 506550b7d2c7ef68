package query

import "github.com/larder-dev/larder/codec"

// labelPairs are the labels of a payload, in its order. They implement labels.Labels without a map. If a name occurs
// twice the last value counts.
type labelPairs struct{ pairs []codec.Label }

// Has implements labels.Labels.
func (l *labelPairs) Has(label string) bool {
	_, ok := l.find(label)
	return ok
}

// Get implements labels.Labels.
func (l *labelPairs) Get(label string) string {
	value, _ := l.find(label)
	return string(value)
}

// Lookup implements labels.Labels.
func (l *labelPairs) Lookup(label string) (string, bool) {
	value, ok := l.find(label)
	return string(value), ok
}

func (l *labelPairs) find(label string) ([]byte, bool) {
	for i := len(l.pairs) - 1; i >= 0; i-- {
		if string(l.pairs[i].Name) == label {
			return l.pairs[i].Value, true
		}
	}
	return nil, false
}
