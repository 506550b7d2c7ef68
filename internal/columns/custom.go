package columns

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/larder-dev/larder/entry"
)

type customColumn struct {
	kind string
	// path is the column's JSONPath. It is nil if the JSONPath is invalid, which a server would have refused, or might
	// have too many results.
	path *jsonpath.JSONPath
}

// customColumns returns the columns of a custom resource. If the definition has none, it returns the column AGE.
func customColumns(custom []entry.Column) *Columns {
	all := define([]string{"Name"})
	var evaluate []customColumn
	for _, c := range custom {
		all = append(all, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Priority: c.Priority})
		path := jsonpath.New(c.Name).AllowMissingKeys(true)
		if text := "{" + c.JSONPath + "}"; !bounded(text) || path.Parse(text) != nil {
			path = nil
		}
		evaluate = append(evaluate, customColumn{c.Type, path})
	}
	return &Columns{definitions: all, cells: func(o object, now time.Time) []any {
		cells, left := []any{o.name()}, mostText
		for _, c := range evaluate {
			var cell any
			if left > 0 {
				cell = c.cell(o, now)
			}
			if text, ok := cell.(string); ok {
				left -= len(text)
			}
			cells = append(cells, cell)
		}
		return cells
	}}
}

// mostText is the maximum number of bytes of all texts in a row, and mostPath the maximum length of a JSONPath. Cells
// beyond these limits are empty.
const (
	mostText = 1 << 20
	mostPath = 1 << 10
)

// bounded reports whether a JSONPath returns at most as many results as the object has values. A recursive descent
// (..), a union and a range can each multiply the results: ..a..a..a returns the third power of an object's depth.
func bounded(text string) bool {
	if len(text) > mostPath {
		return false
	}
	parsed, err := jsonpath.Parse("", text)
	return err == nil && !multiplies(parsed.Root)
}

func multiplies(list *jsonpath.ListNode) bool {
	return slices.ContainsFunc(list.Nodes, func(node jsonpath.Node) bool {
		switch n := node.(type) {
		case *jsonpath.RecursiveNode, *jsonpath.UnionNode, *jsonpath.IdentifierNode:
			return true
		case *jsonpath.ListNode:
			return multiplies(n)
		case *jsonpath.FilterNode:
			return multiplies(n.Left) || multiplies(n.Right)
		}
		return false
	})
}

// cell returns the first result of the column's JSONPath. A result of another type than the column's gives an empty
// cell, but a column of type string prints any value.
func (c customColumn) cell(o object, now time.Time) any {
	if c.path == nil {
		return nil
	}
	results, err := c.path.FindResults(map[string]any(o))
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	if c.kind == "string" {
		var b bytes.Buffer
		if c.path.PrintResults(&b, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return b.String()
	}
	switch v := value.(type) {
	case string:
		if c.kind == "date" {
			return date(v, now)
		}
	case bool:
		if c.kind == "boolean" {
			return v
		}
	case int64:
		if c.kind == "integer" || c.kind == "number" {
			return v
		}
	case float64:
		switch {
		case c.kind == "integer", c.kind == "number" && v == math.Trunc(v) && math.Abs(v) < 1<<53:
			// A JSON decoder may return an integer as a float64.
			return int64(v)
		case c.kind == "number":
			return v
		}
	}
	return nil
}

func date(s string, now time.Time) string {
	if s == "" || s == "null" {
		return unknown
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "<invalid>"
	}
	return Age(now, t)
}
