package input_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
)

func TestDidYouMean(t *testing.T) {
	named := func(group, plural, singular, kind string, short ...string) input.Resource {
		return input.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1",
			Resource: plural},
			ResourceInfo: entry.ResourceInfo{Kind: kind, Singular: singular, ShortNames: short}}
	}
	known := []input.Resource{
		named("", "pods", "pod", "Pod", "po"),
		named("", "podtemplates", "podtemplate", "PodTemplate"),
		named("", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", "pvc"),
		named("", "nodes", "node", "Node", "no"),
		named("apps", "deployments", "deployment", "Deployment", "deploy"),
		named("", "events", "event", "Event", "ev"),
		named("events.k8s.io", "events", "event", "Event", "ev"),
		named("example.com", "widgets", "", ""), // stored without a kind and names
	}
	for arg, want := range map[string]string{
		"podz":          "did you mean pods?",
		"Podz":          "did you mean pods?",
		"podz.v1.":      "did you mean pods?",
		"deploymnts":    "did you mean deployments.apps?",
		"deplyoments":   "did you mean deployments.apps?",
		"deplyo":        "did you mean deployments.apps?",
		"pdos":          "did you mean pods?",
		"dpos":          "",
		"deplo":         "did you mean deployments.apps?",
		"DEPLOYMENT5":   "did you mean deployments.apps?",
		"pvs":           "did you mean persistentvolumeclaims?",
		"persistent":    "did you mean persistentvolumeclaims?",
		"evnts":         "did you mean events or events.events.k8s.io?",
		"widgetz":       "did you mean widgets.example.com?",
		"p":             "", // a name of one letter resembles every word, so nothing is suggested
		"px":            "",
		"":              "",
		"configmaps":    "",
		"nonsenses":     "",
		"services":      "",
		"networkpolicy": "",
		"gadgets":       "",
	} {
		if got := input.DidYouMean(arg, known); got != want {
			t.Errorf("%q: got %q, want %q", arg, got, want)
		}
	}
	if got := input.DidYouMean("podz", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
