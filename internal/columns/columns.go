package columns

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"github.com/larder-dev/larder/entry"
)

// Columns are the columns of the table of one resource. Not safe for concurrent use.
type Columns struct {
	definitions []metav1.TableColumnDefinition
	cells       func(o object, now time.Time) []any
	byDefault   bool // byDefault is true if API servers have no columns of their own for the resource
	unknown     bool // unknown is true if it is not known which columns an API server has for the resource
	sortedBy    string
}

// For returns the columns of a resource. custom holds the additionalPrinterColumns of a custom resource; nil if they
// are unknown. metadataOnly is true if only the metadata of the objects is stored. The columns are then NAME and AGE,
// and Known returns true.
func For(r schema.GroupResource, custom []entry.Column, metadataOnly bool) *Columns {
	k, known := kinds[r]
	switch {
	case metadataOnly:
	case known:
		c := &Columns{definitions: define(k.names), cells: k.cells, byDefault: k.byDefault, sortedBy: k.sortedBy}
		if k.byDefault {
			c.definitions[1].Type = "date"
		}
		return c
	case custom != nil:
		return customColumns(custom)
	}
	definitions := define(nameAndAge.names)
	if !known {
		definitions[1].Type = "date"
	}
	return &Columns{definitions: definitions, cells: nameAndAge.cells, unknown: !known && !metadataOnly}
}

// Definitions returns the definitions in the order of the columns. The caller must not modify them.
func (c *Columns) Definitions() []metav1.TableColumnDefinition { return c.definitions }

// ByDefault reports whether API servers have no columns of their own for the resource. The rows of an empty Table from
// such a server are null.
func (c *Columns) ByDefault() bool { return c.byDefault }

// Known returns false if the resource's own columns are unknown: the resource is of an aggregated API or of a later
// Kubernetes version, or its CustomResourceDefinition is not stored. The columns are then NAME and AGE, although an API
// server may have more. If only metadata is stored, Known returns true.
func (c *Columns) Known() bool { return !c.unknown }

// SortedBy returns the path of the field by which an API server sorts the rows; empty if they are sorted by key.
func (c *Columns) SortedBy() string { return c.sortedBy }

// Row returns the cells of an object's row, in the order of the columns: a string, int64, float64 or bool, or nil for
// an empty cell. Rows of IPAddresses have one extra cell, as in kube-apiserver.
func (c *Columns) Row(u *unstructured.Unstructured, now time.Time) []any {
	cells := c.cells(u.Object, now)
	for len(cells) < len(c.definitions) {
		cells = append(cells, nil)
	}
	return cells
}

type kind struct {
	// names holds the column names. A + before the name marks a column that only -o wide shows. The type follows a
	// colon; the type "name" is a string that a printer prefixes with the kind. Without a colon the type is string,
	// except that Name has the type "name".
	names []string
	cells func(o object, now time.Time) []any
	// byDefault is true if API servers have no columns of their own for the resource.
	byDefault bool
	// sortedBy is the path of the field by which an API server sorts the rows. If it is empty, the rows are sorted by key.
	sortedBy string
}

func define(names []string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for _, name := range names {
		d := metav1.TableColumnDefinition{Type: "string"}
		if wide, ok := strings.CutPrefix(name, "+"); ok {
			name, d.Priority = wide, 1
		}
		name, kind, typed := strings.Cut(name, ":")
		switch d.Name = name; {
		case kind == "name", !typed && name == "Name":
			d.Format = "name"
		case typed:
			d.Type = kind
		}
		all = append(all, d)
	}
	return all
}

var nameAndAge = kind{
	names: []string{"Name", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.age(now)} },
}

var nameAndDate = kind{
	names: []string{"Name", "Created At"},
	cells: func(o object, _ time.Time) []any {
		return []any{o.name(), o.time("metadata", "creationTimestamp").UTC().Format(time.RFC3339)}
	},
	byDefault: true,
}

// kinds has the tables of Kubernetes' own resources. All versions of a resource have the same table.
var kinds = map[schema.GroupResource]kind{
	{Resource: "componentstatuses"}:      componentStatuses,
	{Resource: "configmaps"}:             configMaps,
	{Resource: "endpoints"}:              endpoints,
	{Resource: "events"}:                 events,
	{Resource: "limitranges"}:            nameAndDate,
	{Resource: "namespaces"}:             namespaces,
	{Resource: "nodes"}:                  nodes,
	{Resource: "persistentvolumeclaims"}: claims,
	{Resource: "persistentvolumes"}:      volumes,
	{Resource: "pods"}:                   pods,
	{Resource: "podtemplates"}:           podTemplates,
	{Resource: "replicationcontrollers"}: replicationControllers,
	{Resource: "resourcequotas"}:         quotas,
	{Resource: "secrets"}:                secrets,
	{Resource: "serviceaccounts"}:        nameAndAge,
	{Resource: "services"}:               services,

	{Group: "apps", Resource: "controllerrevisions"}: revisions,
	{Group: "apps", Resource: "daemonsets"}:          daemonSets,
	{Group: "apps", Resource: "deployments"}:         deployments,
	{Group: "apps", Resource: "replicasets"}:         replicaSets,
	{Group: "apps", Resource: "statefulsets"}:        statefulSets,

	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         mutatingPolicies,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   policyBindings,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     webhooks,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       validatingPolicies,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: policyBindings,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   webhooks,
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:                 nameAndDate,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                             apiServices,
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                           autoscalers,
	{Group: "batch", Resource: "cronjobs"}:                                                 cronJobs,
	{Group: "batch", Resource: "jobs"}:                                                     jobs,
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:                 signingRequests,
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:                        trustBundles,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:                     podCertificates,
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}:                            leaseCandidates,
	{Group: "coordination.k8s.io", Resource: "leases"}:                                     leases,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                endpointSlices,
	{Group: "events.k8s.io", Resource: "events"}:                                           events,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       flowSchemas,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}:       priorityLevels,
	{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:                      storageVersions,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                               ingressClasses,
	{Group: "networking.k8s.io", Resource: "ingresses"}:                                    ingresses,
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:                                  ipAddresses,
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:                              networkPolicies,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:                                 serviceCIDRs,
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                                     runtimeClasses,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                    disruptionBudgets,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:                                  nameAndAge,
	{Group: "resource.k8s.io", Resource: "devicetaintrules"}:                               deviceTaints,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                                 resourceClaims,
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}:                         nameAndAge,
	{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}:                     poolStatusRequests,
	{Group: "resource.k8s.io", Resource: "resourceslices"}:                                 resourceSlices,
	{Group: "scheduling.k8s.io", Resource: "podgroups"}:                                    podGroups,
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:                              priorityClasses,
	{Group: "scheduling.k8s.io", Resource: "workloads"}:                                    nameAndAge,

	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: roleBindings,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        nameAndDate,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        roleBindings,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               nameAndDate,

	{Group: "storage.k8s.io", Resource: "csidrivers"}:              csiDrivers,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                csiNodes,
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:    nameAndDate,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:          storageClasses,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:       volumeAttachments,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: volumeAttributesClasses,

	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}: storageMigrations,
}

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
