package discovery

import (
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// selectable has the fields by which kube-apiserver can select objects of its own kinds: the arguments of
// AddFieldLabelConversionFunc in its pkg/apis. All other kinds can be selected by metadata.name and metadata.namespace
// only.
var selectable = map[schema.GroupResource][]string{
	{Resource: "pods"}: {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy",
		"spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
		"status.podIPs", "status.nominatedNodeName"},
	{Resource: "nodes"}:                  {"metadata.name", "spec.unschedulable"},
	{Resource: "namespaces"}:             {"metadata.name", "status.phase"},
	{Resource: "secrets"}:                {"metadata.name", "metadata.namespace", "type"},
	{Resource: "services"}:               {"metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"},
	{Resource: "replicationcontrollers"}: {"metadata.name", "metadata.namespace", "status.replicas"},
	{Resource: "events"}: {"metadata.name", "metadata.namespace", "involvedObject.kind", "involvedObject.namespace",
		"involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	{Group: "events.k8s.io", Resource: "events"}: {"metadata.name", "metadata.namespace", "regarding.kind",
		"regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion",
		"regarding.fieldPath", "reason", "reportingController", "type"},
	{Group: "batch", Resource: "jobs"}: {"metadata.name", "metadata.namespace",
		"status.successful"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"metadata.name", "spec.signerName"},
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:        {"metadata.name", "spec.signerName"},
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: {"metadata.name", "spec.signerName",
		"spec.podName", "spec.nodeName"},
	{Group: "resource.k8s.io", Resource: "resourceslices"}: {"metadata.name", "spec.nodeName", "spec.driver"},
}

func SelectableFields(r schema.GroupResource) (labels []string, special bool) {
	if labels, special = selectable[r]; special {
		return labels, true
	}
	return []string{"metadata.name", "metadata.namespace"}, false
}

func IsSelectableField(r schema.GroupResource, label string) bool {
	labels, _ := SelectableFields(r)
	return slices.Contains(labels, label)
}

// StoredFields translates a field selector of the Kubernetes API into a selector of stored objects, in which fields
// with zero values are missing. Requirements on the source of events are returned separately, because an event's source
// may be in either of two fields.
func StoredFields(r schema.GroupResource, selector fields.Selector) (_ fields.Selector, sources fields.Requirements) {
	var all []fields.Selector
	for _, one := range selector.Requirements() {
		not := one.Operator == selection.NotEquals
		if !IsSelectableField(r, one.Field) {
			all = append(all, term(one.Field, one.Value, not))
			continue
		}
		switch one.Field {
		case "source":
			sources = append(sources, one)
		case "status.successful":
			if one.Field = "status.succeeded"; one.Value == "0" {
				one.Value = ""
			}
			all = append(all, term(one.Field, one.Value, not))
		case "spec.hostNetwork", "spec.unschedulable":
			if one.Value == "false" {
				// A stored object has "false" only if a client has set it explicitly, so the selector for false is: not "true".
				one.Value, not = "true", !not
			}
			all = append(all, term(one.Field, one.Value, not))
		default:
			all = append(all, term(one.Field, one.Value, not))
		}
	}
	return fields.AndSelectors(all...), sources
}

// StoredSelector is StoredFields for a field selector as text. An invalid selector is returned unchanged. The source of
// events is selected by source.component only.
func StoredSelector(r schema.GroupResource, selector string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return selector
	}
	stored, sources := StoredFields(r, parsed)
	for _, one := range sources {
		stored = fields.AndSelectors(stored, term("source.component", one.Value, one.Operator == selection.NotEquals))
	}
	return stored.String()
}

func term(field, value string, not bool) fields.Selector {
	if not {
		return fields.OneTermNotEqualSelector(field, value)
	}
	return fields.OneTermEqualSelector(field, value)
}
