package discovery_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/discovery"
)

// TestStoredSelector checks the translation of selectors for fields whose zero value is missing in stored objects
// (issue 38).
func TestStoredSelector(t *testing.T) {
	pods, jobs := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "batch", Resource: "jobs"}
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for _, test := range []struct {
		of         schema.GroupResource
		from, want string
	}{
		{pods, "spec.hostNetwork=false", "spec.hostNetwork!=true"},
		{pods, "spec.hostNetwork!=false", "spec.hostNetwork=true"},
		{pods, "spec.hostNetwork=true,status.phase!=Running", "spec.hostNetwork=true,status.phase!=Running"},
		{pods, "spec.unschedulable=false", "spec.unschedulable=false"},
		{schema.GroupResource{Resource: "nodes"}, "spec.unschedulable=false", "spec.unschedulable!=true"},
		{jobs, "status.successful=0", "status.succeeded="},
		{jobs, "status.successful!=0", "status.succeeded!="},
		{jobs, "status.successful=2", "status.succeeded=2"},
		{widgets, "status.successful=0", "status.successful=0"},
		{schema.GroupResource{Resource: "events"}, "source=kubelet,type=Normal", "type=Normal,source.component=kubelet"},
	} {
		if got := discovery.StoredSelector(test.of, test.from); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.of, test.from, got, test.want)
		}
	}
}
