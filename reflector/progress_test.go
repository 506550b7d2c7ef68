package reflector

import (
	"testing"
)

func TestAdvance(t *testing.T) {
	for _, tt := range []struct {
		list, event string
		// rv is the resourceVersion for the Sink; resuming is where the next watch starts.
		rv, resuming string
	}{
		{"100", "101", "101", "101"},
		{"100", "99", "100", "100"},
		{"100", "v101", "", "v101"},
		{"100", "", "", "100"},
		{"100", "0", "", "100"},
		{"v100", "v101", "", "v101"},
		{"v100", "v99", "", "v99"},
		{"v100", "101", "", "101"},
		{"v100", "", "", "v100"},
		{"v100", "0", "", "v100"},
		// A watch from "" or "0" begins with all objects, in no order.
		{"", "101", "", ""},
		{"0", "101", "", "0"},
	} {
		p := progressAt(tt.list)
		if got := p.Advance(tt.event); got != tt.rv || p.RV != tt.resuming {
			t.Errorf("list %q, event %q: %q for the sink, resuming at %q", tt.list, tt.event, got, p.RV)
		}
		numbers := tt.list == "100" && tt.event != "v101"
		if p.Comparable() != numbers || p.Reached("100") != numbers {
			t.Errorf("list %q, event %q: comparable %v, at 100 %v", tt.list, tt.event, p.Comparable(), p.Reached("100"))
		}
	}
}

// TestAdvanceBeyondNumbers checks that a stream whose events cannot be compared with its list resumes from the last
// event, also if some resourceVersions look like numbers. Issue 37.
func TestAdvanceBeyondNumbers(t *testing.T) {
	p := progressAt("100")
	for _, rv := range []string{"v101", "v99", "7"} {
		if got := p.Advance(rv); got != "" || p.RV != rv {
			t.Errorf("event %q: %q for the sink, resuming at %q", rv, got, p.RV)
		}
	}
}
