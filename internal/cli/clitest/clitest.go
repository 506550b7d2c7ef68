// Package clitest has helpers that the tests of several command packages share.
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

// Now is the time that the clock of IO shows in the tests.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func IO(out *bytes.Buffer) command.IO {
	return command.IO{Out: out, Err: out, Now: func() time.Time { return Now }}
}

// Stored describes a collection of resource r as a store with a complete list does. change, unless it is nil, modifies
// the description.
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

// In returns an argument change of Stored that limits a collection to one namespace.
func In(namespace string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace = namespace }
}

// Labelled returns an argument change of Stored that limits a collection to the objects in a namespace that match a
// label selector.
func Labelled(namespace, selector string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace, c.LabelSelector = namespace, selector }
}

// Resource returns a namespaced resource with these names, as discovery would describe it.
func Resource(group, version, plural, kind string, short ...string) input.Resource {
	return input.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		ResourceInfo: entry.ResourceInfo{Kind: kind, Singular: strings.ToLower(kind), ShortNames: short,
			Namespaced: true},
	}
}

func WantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one with %q", err, text)
	}
	if !strings.Contains(command.HintOf(err), hint) {
		t.Errorf("got hint %q, want one with %q", command.HintOf(err), hint)
	}
}

var (
	Pods        = Resource("", "v1", "pods", "Pod", "po")
	Deployments = Resource("apps", "v1", "deployments", "Deployment", "deploy")
	Events      = Resource("", "v1", "events", "Event", "ev")
	NewEvents   = Resource("events.k8s.io", "v1", "events", "Event", "ev")
	Widgets     = Resource("example.com", "v1beta1", "widgets", "Widget", "wd", "po")
)
