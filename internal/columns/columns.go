package columns

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// Columns are the columns of one resource's table, for one goroutine at a time.
type Columns struct {
	definitions []metav1.TableColumnDefinition
	cells       func(o object, now time.Time) []any
	byDefault   bool // see ByDefault
}

// For returns the columns of a resource. custom are the additionalPrinterColumns of a custom resource, nil if none are
// known. Where nothing is known of a resource, and where metadataOnly says that no more is stored of its objects, the
// columns are NAME and AGE.
func For(r schema.GroupResource, custom []entry.Column, metadataOnly bool) *Columns {
	k, known := kinds[r]
	switch {
	case metadataOnly:
	case known:
		c := &Columns{definitions: define(k.names), cells: k.cells, byDefault: k.byDefault}
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
	return &Columns{definitions: definitions, cells: nameAndAge.cells}
}

// Definitions are the columns in their order. The caller must not modify them.
func (c *Columns) Definitions() []metav1.TableColumnDefinition { return c.definitions }

// ByDefault reports whether API servers have no columns of the resource. The rows of an empty Table are null there.
func (c *Columns) ByDefault() bool { return c.byDefault }

// Row returns a cell for each definition: a text, an int64, a float64, a bool or nil, which is empty.
func (c *Columns) Row(u *unstructured.Unstructured, now time.Time) []any {
	cells := c.cells(u.Object, now)
	for len(cells) < len(c.definitions) {
		cells = append(cells, nil)
	}
	return cells
}

// kind is what is known of one of Kubernetes' own resources.
type kind struct {
	// names of the columns; + marks those for -o wide.
	names []string
	cells func(o object, now time.Time) []any
	// byDefault: API servers have no columns of the resource.
	byDefault bool
}

// define makes the definitions: the one that is called Name is what a table printer puts the kind before.
func define(names []string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for _, name := range names {
		d := metav1.TableColumnDefinition{Type: "string"}
		if wide, ok := strings.CutPrefix(name, "+"); ok {
			name, d.Priority = wide, 1
		}
		if d.Name = name; name == "Name" {
			d.Format = "name"
		}
		all = append(all, d)
	}
	return all
}

var nameAndAge = kind{
	names: []string{"Name", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.age(now)} },
}

// nameAndDate is what API servers print of the resources that they have no columns for.
var nameAndDate = kind{
	names: []string{"Name", "Created At"},
	cells: func(o object, _ time.Time) []any {
		return []any{o.name(), o.time("metadata", "creationTimestamp").UTC().Format(time.RFC3339)}
	},
	byDefault: true,
}

// kinds are Kubernetes' own resources, in every version alike.
var kinds = map[schema.GroupResource]kind{
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
	{Group: "coordination.k8s.io", Resource: "leases"}:                                     leases,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                endpointSlices,
	{Group: "events.k8s.io", Resource: "events"}:                                           events,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                               ingressClasses,
	{Group: "networking.k8s.io", Resource: "ingresses"}:                                    ingresses,
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:                              networkPolicies,
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                                     runtimeClasses,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                    disruptionBudgets,
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:                              priorityClasses,

	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: roleBindings,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        nameAndDate,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        roleBindings,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               nameAndDate,

	{Group: "storage.k8s.io", Resource: "csidrivers"}:           csiDrivers,
	{Group: "storage.k8s.io", Resource: "csinodes"}:             csiNodes,
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}: nameAndDate,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:       storageClasses,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:    volumeAttachments,
}
