// Package clitest has what the tests of the commands share.
package clitest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// Now is the time of the tests.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// IO prints everything to out, at Now.
func IO(out *bytes.Buffer) command.IO {
	return command.IO{Out: out, Err: out, Now: func() time.Time { return Now }}
}

// Stored is a complete collection of r.
func Stored(r input.Resource, change func(*source.Collection)) source.Collection {
	c := source.Collection{
		Group: r.Group, Version: r.Version, Resource: r.Resource, Representation: string(entry.Unstructured),
		Persistent: true, Complete: true, ResourceVersion: "7", Objects: 3,
	}
	c.SetResource(r.ResourceInfo)
	if change != nil {
		change(&c)
	}
	c.ID = c.Identity().ID()
	return c
}

// In has a collection hold one namespace.
func In(namespace string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace = namespace }
}

// Labelled has a collection hold what a selector selects in a namespace.
func Labelled(namespace, selector string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace, c.LabelSelector = namespace, selector }
}

// Resource is one whose objects have namespaces.
func Resource(group, version, plural, kind string, short ...string) input.Resource {
	return input.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		ResourceInfo: entry.ResourceInfo{Kind: kind, Singular: strings.ToLower(kind), ShortNames: short,
			Namespaced: true},
	}
}

// WantError fails unless err and its hint contain the texts.
func WantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one with %q", err, text)
	}
	if !strings.Contains(command.HintOf(err), hint) {
		t.Errorf("got hint %q, want one with %q", command.HintOf(err), hint)
	}
}

// Resources of the fake server.
var (
	Pods        = Resource("", "v1", "pods", "Pod", "po")
	Deployments = Resource("apps", "v1", "deployments", "Deployment", "deploy")
	Events      = Resource("", "v1", "events", "Event", "ev")
	NewEvents   = Resource("events.k8s.io", "v1", "events", "Event", "ev")
	Widgets     = Resource("example.com", "v1beta1", "widgets", "Widget", "wd", "po")
)
