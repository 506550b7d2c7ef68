package entry

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIdentityIDIsPinned(t *testing.T) {
	// ID must never change, because it names a bucket of existing files.
	if got := pods().ID(); got != "6c691bf7459bb04f8ec4" {
		t.Errorf("got %s", got)
	}
}

func TestIdentityIDDependsOnEveryField(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Identity){
		"nothing":        func(*Identity) {},
		"group":          func(id *Identity) { id.Group = "apps" },
		"version":        func(id *Identity) { id.Version = "v2" },
		"resource":       func(id *Identity) { id.Resource = "nodes" },
		"namespace":      func(id *Identity) { id.Namespace = "apps" },
		"label selector": func(id *Identity) { id.LabelSelector = "a=b" },
		"field selector": func(id *Identity) { id.FieldSelector = "a=b" },
		"shard selector": func(id *Identity) {
			id.ShardSelector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000008')"
		},
		"unstructured":    func(id *Identity) { id.Representation = Unstructured },
		"metadata":        func(id *Identity) { id.Representation = Metadata },
		"moved boundary":  func(id *Identity) { id.Version, id.Resource = "v1p", "ods" },
		"moved boundary2": func(id *Identity) { id.Group, id.Version = "v", "1" },
	} {
		id := pods()
		change(&id)
		if _, err := id.Canonical(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if other, ok := seen[id.ID()]; ok {
			t.Errorf("%q and %q have one id", name, other)
		}
		seen[id.ID()] = name
	}
}

func TestIdentityCanonical(t *testing.T) {
	loose := pods()
	loose.LabelSelector = "tier in (b,a) , app = shop"
	loose.FieldSelector = "status.phase==Running,metadata.name!=x"
	strict, err := loose.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if strict.LabelSelector != "app=shop,tier in (a,b)" || strict.Representation != Typed {
		t.Errorf("got %+v", strict)
	}
	if again, err := strict.Canonical(); err != nil || again != strict {
		t.Errorf("the canonical form of %+v is %+v, %v", strict, again, err)
	}
	if loose.ID() != strict.ID() {
		t.Error("two ways to write one selector have two ids")
	}
	typed := pods()
	typed.Representation = Typed
	if typed.ID() != pods().ID() {
		t.Error("no representation is not Typed")
	}
}

func TestIdentityRefuses(t *testing.T) {
	for want, change := range map[string]func(*Identity){
		"version and resource":           func(id *Identity) { id.Version = "" },
		"must not be empty":              func(id *Identity) { id.Resource = "" },
		"representation must be one of":  func(id *Identity) { id.Representation = "json" },
		"label selector: unable to pars": func(id *Identity) { id.LabelSelector = "a in" },
		"label selector: it is blank":    func(id *Identity) { id.LabelSelector = " " },
		"field selector: invalid":        func(id *Identity) { id.FieldSelector = "a" },
		"shard selector: it is blank":    func(id *Identity) { id.ShardSelector = " " },
		`shard selector: "a=b" is not`:   func(id *Identity) { id.ShardSelector = "a=b" },
	} {
		id := pods()
		change(&id)
		if _, err := id.Canonical(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if s := labels.Nothing().String(); s != "" {
		t.Errorf("labels.Nothing prints as %q: say so where Identity refuses blanks", s)
	}
}

func TestIdentityString(t *testing.T) {
	id := Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace:            "web", LabelSelector: "app=shop", FieldSelector: "metadata.name=x",
		Representation: Unstructured,
	}
	const want = "deployments.v1.apps in namespace web, label selector app=shop, " +
		"field selector metadata.name=x (unstructured)"
	if id.String() != want || pods().String() != "pods.v1" {
		t.Errorf("got %q and %q", id, pods())
	}
}
