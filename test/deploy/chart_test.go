package deploy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

var chartDir = filepath.Join("..", "..", "deploy", "chart")

type release struct {
	namespace string
	text      string // all templates, in the format of helm template
	notes     string
	objects   []*unstructured.Unstructured
}

func render(t *testing.T, namespace, values string) *release {
	t.Helper()
	r, err := tryRender(namespace, values)
	if err != nil {
		t.Fatalf("%v\nof the values\n%s", err, values)
	}
	return r
}

func tryRender(namespace, values string) (*release, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, given,
		common.ReleaseOptions{Name: "larder", Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), chart, all)
	if err != nil {
		return nil, err
	}
	r := &release{namespace: namespace}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch text := withoutEmptyLines(files[name]); {
		case strings.HasSuffix(name, "NOTES.txt"):
			r.notes = text
		case strings.TrimSpace(text) != "":
			r.text += "---\n" + strings.TrimPrefix(text, "---\n")
		}
	}
	r.objects, err = parse(r.text)
	return r, err
}

func withoutEmptyLines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			out.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return out.String()
}

// parse splits YAML documents. It refuses duplicate keys.
func parse(text string) (all []*unstructured.Unstructured, err error) {
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		data, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(data, &u.Object); err != nil {
			return nil, errors.Join(err, errors.New(string(data)))
		}
		if u.Object != nil {
			all = append(all, u)
		}
	}
}

func (r *release) find(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, u := range r.objects {
		if u.GetKind() == kind && u.GetName() == name {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d objects %s %s", len(found), kind, name)
	}
	return found[0]
}

func as[T any](t *testing.T, u *unstructured.Unstructured) (object T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (r *release) kinds() map[string]int {
	n := map[string]int{}
	for _, u := range r.objects {
		n[u.GetKind()]++
	}
	return n
}
