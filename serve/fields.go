package serve

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
)

// selectable are the fields, besides name and namespace, by which kube-apiserver selects objects of its own kinds.
var selectable = map[schema.GroupResource][]string{
	{Resource: "pods"}: {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
		"spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"},
	{Resource: "nodes"}:                  {"spec.unschedulable"},
	{Resource: "namespaces"}:             {"status.phase"},
	{Resource: "secrets"}:                {"type"},
	{Resource: "services"}:               {"spec.clusterIP", "spec.type"},
	{Resource: "replicationcontrollers"}: {"status.replicas"},
	{Resource: "events"}: {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
		"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	{Group: "events.k8s.io", Resource: "events"}: {"regarding.kind", "regarding.namespace", "regarding.name",
		"regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason",
		"reportingController", "type"},
	{Group: "apps", Resource: "replicasets"}:                               {"status.replicas"},
	{Group: "batch", Resource: "jobs"}:                                     {"status.successful"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"spec.signerName"},
}

// noNamespace are kinds that kube-apiserver does not select by metadata.namespace; custom resources without a namespace
// are others.
var noNamespace = []schema.GroupResource{{Resource: "nodes"}, {Resource: "namespaces"}}

// checkFields refuses a selector by fields that kube-apiserver does not select the kind by, in its words.
func (k *kind) checkFields(selector fields.Selector) error {
	builtIn := k.collections[0].builtIn
	of, special := selectable[k.GroupResource()]
	for _, r := range selector.Requirements() {
		switch {
		case r.Field == "metadata.name", slices.Contains(of, r.Field), slices.Contains(k.SelectableFields, r.Field),
			r.Field == "metadata.namespace" && (k.Namespaced || builtIn && !slices.Contains(noNamespace, k.GroupResource())):
		case builtIn && !special:
			return apierrors.NewBadRequest(fmt.Sprintf(
				`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, r.Field))
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return nil
}

// matcherOf returns what reports whether an entry is selected; nil if all are. It must not be used concurrently.
func matcherOf(c *renderer, o *listOptions) func(entry.Entry) (bool, error) {
	if !o.selective() {
		return nil
	}
	fields, sources := stored(o.fields)
	matches := query.Query{Labels: o.labels, Fields: fields}.ForEntries(c.codec())
	if len(sources) == 0 {
		return matches
	}
	return func(e entry.Entry) (bool, error) {
		if ok, err := matches(e); err != nil || !ok {
			return false, err
		}
		u, err := c.decoder.Decode(e)
		if err != nil {
			return false, err
		}
		source, _, _ := unstructured.NestedString(u.Object, "source", "component")
		if source == "" {
			source, _, _ = unstructured.NestedString(u.Object, "reportingComponent")
		}
		for _, r := range sources {
			if (source == r.Value) == (r.Operator == selection.NotEquals) {
				return false, nil
			}
		}
		return true, nil
	}
}

// stored returns a selector by the names and values that fields have in objects, which leave out what is zero. sources
// are requirements on the source of events, which may be in either of two fields.
func stored(selector fields.Selector) (_ fields.Selector, sources fields.Requirements) {
	var rest []fields.Selector
	for _, r := range selector.Requirements() {
		zero := r.Value
		switch r.Field {
		case "source":
			sources = append(sources, r)
			continue
		case "status.successful":
			r.Field = "status.succeeded"
			if zero == "0" {
				zero = ""
			}
		case "spec.hostNetwork", "spec.unschedulable":
			if zero == "false" {
				zero = ""
			}
		}
		if r.Operator == selection.NotEquals {
			rest = append(rest, fields.OneTermNotEqualSelector(r.Field, zero))
		} else {
			rest = append(rest, fields.OneTermEqualSelector(r.Field, zero))
		}
	}
	return fields.AndSelectors(rest...), sources
}
