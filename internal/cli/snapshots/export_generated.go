package snapshots

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// generated maps kinds to functions that remove generated fields from an exported object. An API server or a controller
// generates these fields for one object: the API server refuses them in a new object, or they refer to other objects
// and ports that the new object does not have. Fields that clients may also set are kept if a client has set them.
var generated = map[schema.GroupKind]func(o content, byClients fieldSets){
	{Group: "batch", Kind: "Job"}:   leaveOutOfJob,
	{Kind: "Service"}:               leaveOutOfService,
	{Kind: "Pod"}:                   leaveOutOfPod,
	{Kind: "PersistentVolumeClaim"}: leaveOutOfClaim,
	{Kind: "PersistentVolume"}:      leaveOutOfVolume,
	{Kind: "Secret"}:                leaveOutOfSecret,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: leaveOutOfSigningRequest,
	{Group: "events.k8s.io", Kind: "Event"}:                           asOldEvent,
}

// leaveOutGenerated removes the generated fields of an exported object. The object must still have its managedFields
// and its uid.
func leaveOutGenerated(object map[string]any) {
	u := unstructured.Unstructured{Object: object}
	o := content(object)
	if leaveOut := generated[u.GroupVersionKind().GroupKind()]; leaveOut != nil {
		leaveOut(o, setByClients(o))
	}
	if finalizers, ok := o.at("metadata", "finalizers").([]any); ok {
		// Finalizers that exist only while an object is being deleted are removed.
		finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == "foregroundDeletion" || f == "orphan" })
		if o.child("metadata")["finalizers"] = finalizers; len(finalizers) == 0 {
			o.remove("metadata", "finalizers")
		}
	}
}

// leaveOutOfJob removes the selector that the API server has generated for a Job, and the labels that it has added to
// the Job's Pods for that selector. A Job created without labels got the labels of its Pods, so they are also removed
// from the Job.
func leaveOutOfJob(o content, _ fieldSets) {
	if o.at("spec", "manualSelector") == true {
		return
	}
	o.remove("spec", "selector")
	for _, path := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		parent := o.child(path...)
		labels, _ := parent["labels"].(map[string]any)
		uid := o.at("metadata", "uid")
		if uid == nil || labels["controller-uid"] != uid && labels["batch.kubernetes.io/controller-uid"] != uid {
			continue
		}
		for _, name := range []string{"controller-uid", "job-name"} {
			delete(labels, name)
			delete(labels, "batch.kubernetes.io/"+name)
		}
		if len(labels) == 0 {
			delete(parent, "labels")
		}
	}
}

func leaveOutOfService(o content, byClients fieldSets) {
	spec := o.child("spec")
	if byClients.have("spec", "clusterIPs") || spec["clusterIP"] == "None" {
		byClients = append(byClients, content{"f:spec": map[string]any{"f:clusterIP": nil, "f:clusterIPs": nil}})
	}
	for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
		if !byClients.have("spec", field) {
			delete(spec, field)
		}
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		port, _ := p.(map[string]any)
		protocol, ok := port["protocol"].(string)
		if !ok {
			protocol = "TCP"
		}
		key := fmt.Sprintf(`k:{"port":%v,"protocol":%q}`, port["port"], protocol)
		if !byClients.contain("f:spec", "f:ports", key, "f:nodePort") {
			delete(port, "nodePort")
		}
	}
}

// leaveOutOfPod removes generated fields of a Pod: the node, unless a client has set it or the Pod is a mirror Pod of
// the kubelet; fields that admission plugins compute from priority and runtime classes, because the plugins refuse
// these fields once the classes have changed; the volume with the token; and ephemeral containers, which a new Pod must
// not have.
func leaveOutOfPod(o content, byClients fieldSets) {
	spec := o.child("spec")
	if o.at("metadata", "annotations", "kubernetes.io/config.mirror") == nil && !byClients.have("spec", "nodeName") {
		delete(spec, "nodeName")
	}
	for _, field := range []string{"priority", "preemptionPolicy", "overhead", "ephemeralContainers"} {
		delete(spec, field)
	}
	account, _ := spec["serviceAccountName"].(string)
	isToken := func(v any) bool {
		volume, _ := v.(map[string]any)
		name, _ := volume["name"].(string)
		return volume["projected"] != nil && strings.HasPrefix(name, "kube-api-access-") ||
			// In clusters before Kubernetes 1.22 the token volumes were Secrets.
			volume["secret"] != nil && account != "" && strings.HasPrefix(name, account+"-token-")
	}
	volumes, _ := spec["volumes"].([]any)
	tokens := map[any]bool{}
	for _, v := range volumes {
		if isToken(v) {
			tokens[v.(map[string]any)["name"]] = true
		}
	}
	removeItems(spec, "volumes", isToken)
	for _, field := range []string{"initContainers", "containers"} {
		containers, _ := spec[field].([]any)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			removeItems(container, "volumeMounts", func(m any) bool {
				mount, _ := m.(map[string]any)
				return tokens[mount["name"]]
			})
		}
	}
}

func removeItems(parent map[string]any, field string, remove func(item any) bool) {
	items, _ := parent[field].([]any)
	if kept := slices.DeleteFunc(items, remove); len(kept) > 0 {
		parent[field] = kept
	} else if len(items) > 0 {
		delete(parent, field)
	}
}

// leaveOutOfClaim removes the binding of a PersistentVolumeClaim if the controller made it. A volume that the claim's
// author named is kept.
func leaveOutOfClaim(o content, _ fieldSets) {
	if o.at("metadata", "annotations", "pv.kubernetes.io/bound-by-controller") != nil {
		o.remove("spec", "volumeName")
	}
	o.removeAnnotations("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
		"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/selected-node")
}

// leaveOutOfVolume removes the uid of the claim to which a PersistentVolume is bound. It keeps the claim's name, so
// that a new claim of that name is bound to the volume.
func leaveOutOfVolume(o content, _ fieldSets) {
	o.remove("spec", "claimRef", "uid")
	o.remove("spec", "claimRef", "resourceVersion")
	o.removeAnnotations("pv.kubernetes.io/bound-by-controller")
}

// leaveOutOfSecret removes the generated token from a ServiceAccount's Secret, because a controller generates a new
// token.
func leaveOutOfSecret(o content, _ fieldSets) {
	if o["type"] != "kubernetes.io/service-account-token" {
		return
	}
	data := o.child("data")
	for _, name := range []string{"token", "ca.crt", "namespace"} {
		delete(data, name)
	}
	if len(data) == 0 {
		delete(o, "data")
	}
	o.removeAnnotations("kubernetes.io/service-account.uid")
}

// leaveOutOfSigningRequest removes the author of a CertificateSigningRequest, because the API server sets it.
func leaveOutOfSigningRequest(o content, _ fieldSets) {
	for _, field := range []string{"username", "uid", "groups", "extra"} {
		o.remove("spec", field)
	}
}

// asOldEvent converts an Event that a client has written as v1, and that was read as events.k8s.io/v1, back to v1. The
// API events.k8s.io/v1 returns v1 Events but rejects them in a create.
func asOldEvent(o content, _ fieldSets) {
	if o["eventTime"] != nil {
		return
	}
	o["apiVersion"] = "v1"
	for newer, older := range map[string]string{
		"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent",
		"deprecatedSource": "source", "deprecatedCount": "count",
		"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp",
	} {
		if v, ok := o[newer]; ok {
			delete(o, newer)
			o[older] = v
		}
	}
}

type content map[string]any

func (o content) at(path ...string) any {
	// The value is nil if a parent is not a map, so the error is ignored.
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...)
	return v
}

// child returns the map at a path of field names. Without a map it returns nil, from which reading and deleting is
// safe.
func (o content) child(path ...string) map[string]any {
	m, _ := o.at(path...).(map[string]any)
	return m
}

func (o content) remove(path ...string) { unstructured.RemoveNestedField(o, path...) }

func (o content) removeAnnotations(names ...string) {
	annotations := o.child("metadata", "annotations")
	for _, name := range names {
		delete(annotations, name)
	}
}

// fieldSets is a list of sets of fields in the form of FieldsV1 in managedFields.
type fieldSets []content

// setByClients returns the sets of fields in managedFields that clients have set. It ignores fields set through
// subresources, because controllers, schedulers and kubelets write those.
func setByClients(o content) fieldSets {
	var all fieldSets
	entries, _ := o.at("metadata", "managedFields").([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if subresource, _ := entry["subresource"].(string); subresource != "" {
			continue
		}
		if fields, ok := entry["fieldsV1"].(map[string]any); ok {
			all = append(all, fields)
		}
	}
	return all
}

// have reports whether a set contains the field at a path of field names.
func (f fieldSets) have(path ...string) bool {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = "f:" + name
	}
	return f.contain(keys...)
}

// contain reports whether a set contains a path of keys in FieldsV1 notation, such as f:spec.
func (f fieldSets) contain(keys ...string) bool {
	return slices.ContainsFunc(f, func(set content) bool {
		_, ok, _ := unstructured.NestedFieldNoCopy(set, keys...)
		return ok
	})
}
