package entry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
)

// TestReadMetadata checks that fitting members of the metadata are read, and other members are named (kubernetes#91582,
// issue 38).
func TestReadMetadata(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		key   string
		unfit []string
		fails bool
	}{
		"fits": {
			`{"kind":"W","metadata":{"namespace":"a","name":"x","uid":"u","resourceVersion":"5"}}`, "a/x/u/5", nil, false,
		},
		"empty time": {
			`{"kind":"W","metadata":{"creationTimestamp":"","namespace":"a","name":"x","uid":"u","resourceVersion":"5"}}`,
			"a/x/u/5", []string{"creationTimestamp"}, false,
		},
		"several": {
			`{"kind":5,"metadata":{"namespace":"a","name":"x","uid":7,"resourceVersion":"5","labels":[],"finalizers":{}}}`,
			"a/x//5", []string{"finalizers", "labels", "uid"}, false,
		},
		"no metadata":   {`{"kind":"W","metadata":"secret"}`, "", nil, true},
		"no object":     {`["secret"]`, "", nil, true},
		"null metadata": {`{"kind":5,"metadata":null}`, "", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, unfit, err := entry.ReadMetadata([]byte(tt.text))
			if tt.fails {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, %v", m, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			key := strings.Join([]string{m.Namespace, m.Name, string(m.UID), m.ResourceVersion}, "/")
			if key != tt.key || !slices.Equal(unfit, tt.unfit) {
				t.Errorf("%s without %q; want %s without %q", key, unfit, tt.key, tt.unfit)
			}
		})
	}
}
