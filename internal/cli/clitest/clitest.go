// Package clitest has helpers that the tests of several command packages share.
package clitest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/source"
)

// Now is the time that the clock of IO shows in the tests.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// IO returns the streams of a command that prints everything to out, and whose clock shows Now.
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

// WantError fails the test unless the text of err contains text, and its hint for the user contains hint.
func WantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one with %q", err, text)
	}
	if !strings.Contains(command.HintOf(err), hint) {
		t.Errorf("got hint %q, want one with %q", command.HintOf(err), hint)
	}
}

// Resources with the short names that kubectl has for them.
var (
	Pods        = Resource("", "v1", "pods", "Pod", "po")
	Deployments = Resource("apps", "v1", "deployments", "Deployment", "deploy")
	Events      = Resource("", "v1", "events", "Event", "ev")
	NewEvents   = Resource("events.k8s.io", "v1", "events", "Event", "ev")
	Widgets     = Resource("example.com", "v1beta1", "widgets", "Widget", "wd", "po")
)

// StartServer starts a fake API server, which stops when the test ends.
func StartServer(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// CreatePod creates a pod on the fake API server.
func CreatePod(
	t *testing.T, server *fakeapi.Server, namespace, name string, labels map[string]string,
) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{}}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	created, err := server.Create(Pods.GroupVersionResource, u)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// PodsOf returns the identity of a collection of pods.
func PodsOf(namespace, labels, fields string) entry.Identity {
	return entry.Identity{
		GroupVersionResource: Pods.GroupVersionResource, Namespace: namespace, LabelSelector: labels, FieldSelector: fields,
		Representation: entry.Unstructured,
	}
}

// Definitions is the resource customresourcedefinitions of the API group apiextensions.k8s.io.
var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// StartWithWidgets starts a fake API server that serves the custom resource widgets and CustomResourceDefinitions.
func StartWithWidgets(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{
		{GroupVersionResource: Widgets.GroupVersionResource, Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"},
			Namespaced: true},
		{GroupVersionResource: Definitions, Kind: "CustomResourceDefinition", Singular: "customresourcedefinition"},
	}})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// WidgetDefinition returns a CustomResourceDefinition of the resource widgets.
func WidgetDefinition() *unstructured.Unstructured {
	column := func(name, path string) map[string]any {
		return map[string]any{"name": name, "type": "string", "jsonPath": path, "priority": int64(1),
			"description": "left out"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "singular": "widget", "plural": "widgets", "shortNames": []any{"wd"},
				"categories": []any{"all"}},
			"versions": []any{
				map[string]any{"name": "v1alpha1", "additionalPrinterColumns": []any{column("Old", ".old")}},
				map[string]any{"name": "v1beta1", "additionalPrinterColumns": []any{column("Size", ".spec.size")}},
			},
		},
	}}
}

var (
	message     = regexp.MustCompile(`^(error|hint|note): `)
	commandLine = regexp.MustCompile(
		`(?:^|[ (":])(larder( snapshot)? [a-z][a-z-]*|kubectl|age-keygen|minisign|kill|rm|mv|systemd-run)\b`)
	// flagOf captures a command-line flag in a text.
	flagOf    = regexp.MustCompile(`(?:^|[ ("])(--[a-z][a-z-]*[a-z]|-[a-zA-Z])(?:[^a-zA-Z0-9%-]|$)`)
	clauseEnd = regexp.MustCompile(`;|\. |, or `)
)

// UnknownFlags returns the flags in messages on standard error that do not exist. A flag within a command line must
// belong to the command of that line, any other flag to cmd.
func UnknownFlags(cmd *cobra.Command, said string) (flags []string) {
	for line := range strings.Lines(said) {
		if message.MatchString(line) && !strings.Contains(line, "unknown flag") &&
			!strings.Contains(line, "unknown shorthand") {
			flags = append(flags, UnknownFlagsIn(line, func(of *cobra.Command, flag string) bool {
				if of == nil {
					of = cmd
				}
				return Has(of, flag)
			}, cmd.Root())...)
		}
	}
	return flags
}

// UnknownFlagsIn returns the flags in text for which has returns false. has receives the command of the command line
// that contains the flag, or nil if the flag is outside a command line. Flags of other programs are skipped.
func UnknownFlagsIn(text string, has func(of *cobra.Command, flag string) bool, root *cobra.Command) (flags []string) {
	for _, clause := range clauseEnd.Split(text, -1) {
		for _, at := range flagOf.FindAllStringSubmatchIndex(clause, -1) {
			of, ours := commandOf(root, clause[:at[2]])
			if flag := clause[at[2]:at[3]]; ours && !has(of, flag) {
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

// commandOf returns the larder command of the last command line in text, if any. ours is false if the last command line
// is of another program.
func commandOf(root *cobra.Command, text string) (of *cobra.Command, ours bool) {
	all := commandLine.FindAllString(text, -1)
	if len(all) == 0 {
		return nil, true
	}
	words := strings.Fields(strings.TrimLeft(all[len(all)-1], `(":`))
	if words[0] != "larder" {
		return nil, false
	}
	found, _, err := root.Find(words[1:])
	if err != nil || found == root {
		return nil, true // the word after larder is no command, but the program is larder
	}
	return found, true
}

// Has reports whether the command has the flag.
func Has(cmd *cobra.Command, flag string) bool {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if name, ok := strings.CutPrefix(flag, "--"); ok {
		return cmd.Flag(name) != nil
	}
	return cmd.Flags().ShorthandLookup(flag[1:]) != nil
}
