package mirror

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

func learning(t *testing.T, server *fakeapi.Server, schemas bool, look func(l *learner, st *store.Store),
	resources ...input.Resource) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := newMirror(st)
	m.learner = newLearner(st, mustServer(t, server.Config()), schemas)
	m.learner.spread = 1
	m.learner.again = time.Millisecond
	m.learner.patience = time.Millisecond
	for _, r := range resources {
		mb, err := newMember(t.Context(), st, planned{resource: r, identity: entry.Identity{
			GroupVersionResource: r.GroupVersionResource, Representation: entry.Unstructured,
		}, conn: mustConnect(t, server.Config())}, memberOptions{schemas: schemas, learner: m.learner})
		if err != nil {
			t.Fatal(err)
		}
		m.members = append(m.members, mb)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	look(m.learner, st)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func until(t *testing.T, st *store.Store, wanted func(facts.Server) bool) {
	t.Helper()
	var known facts.Server
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if known, err = facts.Read(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		if wanted(known) {
			return
		}
	}
	t.Errorf("known is %+v", known)
}

var (
	coreV1 = schema.GroupVersion{Version: "v1"}
	appsV1 = schema.GroupVersion{Group: "apps", Version: "v1"}
)

// TestLearn checks that the learner of a sync stores facts about the server, and stores a schema again when an informer
// has read a new hash of the schema.
func TestLearn(t *testing.T) {
	server := clitest.StartServer(t)
	learning(t, server, true, func(l *learner, st *store.Store) {
		until(t, st, func(s facts.Server) bool {
			return s.Version != nil && s.Discovery.Has(coreV1) && s.Schemas[coreV1] != "" && s.Schemas[appsV1] != "" &&
				// Schemas are stored, and keys are not, because the server refuses requests for its keys.
				len(s.Schemas) == 2 && s.Keys == nil
		})
		server.SetOpenAPIHash(appsV1, "CHANGED")
		// New Schemas have an empty cache, as after the five minutes for which hashes are cached.
		l.server.Schemas = requests.NewSchemas(l.server.Raw)
		if hash, err := l.hash(appsV1)(t.Context()); err != nil || hash != "CHANGED" {
			t.Errorf("%q, %v", hash, err)
		}
		until(t, st, func(s facts.Server) bool { return s.Schemas[appsV1] == "CHANGED" })
		document, _, err := facts.OpenAPI(t.Context(), st, appsV1, nil)
		if err != nil || !strings.Contains(string(document), "CHANGED") {
			t.Errorf("%s, %v", document, err)
		}
	}, clitest.Pods, clitest.Deployments)
}

func TestLearnNoSchemas(t *testing.T) {
	server := clitest.StartServer(t)
	learning(t, server, false, func(l *learner, st *store.Store) {
		until(t, st, func(s facts.Server) bool { return s.Version != nil && s.Discovery.Has(coreV1) })
		l.noteHash(coreV1, "one")
		l.noteHash(coreV1, "other")
		if len(l.changed) > 0 {
			t.Error("a schema that changes is asked for")
		}
		if names, err := st.Documents(t.Context()); err != nil || slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "openapi")
		}) {
			t.Errorf("%q, %v", names, err)
		}
	}, clitest.Pods)
}

// TestLearnBesideFailures checks that a resource that the server does not list does not keep the learner from storing
// facts, and that the learner retries failed requests.
func TestLearnBesideFailures(t *testing.T) {
	server := clitest.StartServer(t)
	for _, verb := range []string{"list", "probe", "compare", "watch"} {
		server.InjectFault(fakeapi.Fault{Verb: verb, Resource: "deployments", Status: http.StatusForbidden,
			Reason: "Forbidden", Times: 1000})
	}
	server.InjectFault(fakeapi.Fault{Verb: "discovery", Status: http.StatusInternalServerError, Times: 5})
	learning(t, server, true, func(_ *learner, st *store.Store) {
		until(t, st, func(s facts.Server) bool { return s.Version != nil && s.Schemas[coreV1] != "" })
	}, clitest.Deployments, clitest.Pods)
}

// TestLearnNothing checks that no facts about the server are stored before a list succeeds.
func TestLearnNothing(t *testing.T) {
	server := clitest.StartServer(t)
	server.InjectFault(fakeapi.Fault{Verb: "list", Resource: "pods", Status: http.StatusForbidden, Reason: "Forbidden",
		Times: 1000})
	learning(t, server, true, func(_ *learner, st *store.Store) {
		// The second list takes a second, in which a running learner would have read the facts.
		for server.Counts(clitest.Pods.GroupVersionResource).Lists < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		if names, err := st.Documents(t.Context()); err != nil || len(names) > 0 {
			t.Errorf("%q, %v", names, err)
		}
	}, clitest.Pods)
}
