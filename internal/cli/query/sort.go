package query

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
)

// bracesAndDot matches the accepted notations of a JSONPath for --sort-by: a.b, .a.b, {a.b} and {.a.b}.
var bracesAndDot = regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`)

func relaxedPath(path string) (string, error) {
	found := bracesAndDot.FindStringSubmatch(path)
	if found == nil {
		return "", fmt.Errorf("%q is no path; write it as .metadata.name or {.metadata.name}", path)
	}
	return "{." + found[1] + found[2] + "}", nil
}

func parsePath(path string) (*jsonpath.JSONPath, error) {
	template, err := relaxedPath(path)
	if err != nil {
		return nil, err
	}
	j := jsonpath.New("path").AllowMissingKeys(true)
	if err := j.Parse(template); err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	return j, nil
}

type sortField struct {
	name string
	path *jsonpath.JSONPath
}

func newSortField(field string) (*sortField, error) {
	if field == "" {
		return nil, nil
	}
	path, err := parsePath(field)
	if err != nil {
		return nil, command.Usagef("--sort-by: %w", err)
	}
	return &sortField{field, path}, nil
}

// sortKeys holds, for each object, the value of the field by which objects are sorted; nil for an object without the
// field.
type sortKeys struct{ keys []any }

func (k *sortKeys) add(by *sortField, u *unstructured.Unstructured) error {
	results, err := by.path.FindResults(u.Object)
	if err != nil {
		return fmt.Errorf("--sort-by %s: %w", by.name, err)
	}
	var key any
	if len(results) > 0 && len(results[0]) > 0 && results[0][0].IsValid() {
		key = results[0][0].Interface()
	}
	k.keys = append(k.keys, key)
	return nil
}

// order returns the indexes of the objects in sorted order. Objects without the field come first, as in kubectl, and
// objects with equal values keep their order.
func (k *sortKeys) order(by *sortField) ([]int, error) {
	order := make([]int, len(k.keys))
	for i := range k.keys {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(a, b int) int {
		c, err := compareKeys(k.keys[a], k.keys[b])
		if err != nil {
			failed = err
		}
		return c
	})
	if failed != nil {
		return nil, fmt.Errorf("--sort-by %s: %w", by.name, failed)
	}
	return order, nil
}

// compareKeys compares JSON values: numbers by value, and strings by value if they are quantities such as 100Mi.
func compareKeys(a, b any) (int, error) {
	if a == nil || b == nil {
		return boolOrder(a != nil, b != nil), nil
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return compareTexts(x, y), nil
		}
	case bool:
		if y, ok := b.(bool); ok {
			return boolOrder(x, y), nil
		}
	case int64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, y), nil
		case float64:
			return cmp.Compare(float64(x), y), nil
		}
	case float64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, float64(y)), nil
		case float64:
			return cmp.Compare(x, y), nil
		}
	}
	return 0, fmt.Errorf("%s and %s cannot be compared", what(a), what(b))
}

func compareTexts(a, b string) int {
	x, errA := quantity.ParseQuantity(a)
	y, errB := quantity.ParseQuantity(b)
	if errA != nil || errB != nil {
		return strings.Compare(a, b)
	}
	return x.Cmp(y)
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// what returns the name of a value's JSON type, for an error that must not show the value.
func what(v any) string {
	switch reflect.ValueOf(v).Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int64, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// sortingPrinter sorts the objects of all resources together before it prints them.
type sortingPrinter struct {
	to      printer
	by      *sortField
	objects []*unstructured.Unstructured
	keys    sortKeys
}

func (p *sortingPrinter) begin(c input.Choice, withKind bool) error { return p.to.begin(c, withKind) }

func (p *sortingPrinter) object(u *unstructured.Unstructured) error {
	p.objects = append(p.objects, u)
	return p.keys.add(p.by, u)
}

func (p *sortingPrinter) finish() error {
	order, err := p.keys.order(p.by)
	if err != nil {
		return err
	}
	for _, at := range order {
		if err := p.to.object(p.objects[at]); err != nil {
			return err
		}
	}
	return p.to.finish()
}
