package snapshots

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// generated has the kinds with fields that an API server or a controller generates for one life of an object: the API
// server refuses them in a new object, or they name objects and ports that another life does not have. Each function
// leaves them out of an object. Fields that clients may set too stay if a client has set them.
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

// leaveOutGenerated removes generated fields from an object that still has its managedFields and its uid.
func leaveOutGenerated(object map[string]any) {
	u := unstructured.Unstructured{Object: object}
	o := content(object)
	if leaveOut := generated[u.GroupVersionKind().GroupKind()]; leaveOut != nil {
		leaveOut(o, setByClients(o))
	}
	if finalizers, ok := o.at("metadata", "finalizers").([]any); ok { // of a deletion that had begun
		finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == "foregroundDeletion" || f == "orphan" })
		if o.child("metadata")["finalizers"] = finalizers; len(finalizers) == 0 {
			o.remove("metadata", "finalizers")
		}
	}
}

// leaveOutOfJob removes the selector that the API server has made, and the labels that it has given the Pods for it. A
// Job without labels has those of its Pods.
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

// leaveOutOfService removes addresses and ports of nodes that the API server has chosen.
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

// leaveOutOfPod removes the node, unless a client has set it or it is the kubelet's own Pod; fields that admission has
// computed from classes, and refuses if the classes have changed; the volume with a token; and debugging containers,
// which a new Pod may not have.
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
			volume["secret"] != nil && account != "" && strings.HasPrefix(name, account+"-token-") // before 1.22
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

// removeItems removes items of a list, and the list if none is left.
func removeItems(parent map[string]any, field string, remove func(item any) bool) {
	items, _ := parent[field].([]any)
	if kept := slices.DeleteFunc(items, remove); len(kept) > 0 {
		parent[field] = kept
	} else if len(items) > 0 {
		delete(parent, field)
	}
}

// leaveOutOfClaim removes a binding that the controller has made. A volume that the claim names by itself stays.
func leaveOutOfClaim(o content, _ fieldSets) {
	if o.at("metadata", "annotations", "pv.kubernetes.io/bound-by-controller") != nil {
		o.remove("spec", "volumeName")
	}
	o.removeAnnotations("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
		"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/selected-node")
}

// leaveOutOfVolume removes the life of the claim, not its name: a new claim of this name gets the volume.
func leaveOutOfVolume(o content, _ fieldSets) {
	o.remove("spec", "claimRef", "uid")
	o.remove("spec", "claimRef", "resourceVersion")
	o.removeAnnotations("pv.kubernetes.io/bound-by-controller")
}

// leaveOutOfSecret removes the token of a ServiceAccount's life: a controller makes another one.
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

// leaveOutOfSigningRequest removes the user who made the request.
func leaveOutOfSigningRequest(o content, _ fieldSets) {
	for _, field := range []string{"username", "uid", "groups", "extra"} {
		o.remove("spec", field)
	}
}

// asOldEvent turns an Event that a client has written in v1 back into v1: events.k8s.io/v1 shows it, but does not
// accept it as a new one.
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

// content is the content of an object, or a part of it.
type content map[string]any

// at returns the value at a path of fields; nil if there is none.
func (o content) at(path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...) // nil if something on the way is no map
	return v
}

// child returns the object at a path; nil if there is none, from which nothing can be removed but which can be read.
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

// fieldSets are sets of fields in the form of managedFields (FieldsV1).
type fieldSets []content

// setByClients returns the fields that clients have set in an object. Subresources are left out: those are for
// controllers, schedulers and kubelets.
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

// have reports whether the field at a path of names is in one of the sets.
func (f fieldSets) have(path ...string) bool {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = "f:" + name
	}
	return f.contain(keys...)
}

// contain reports whether a path of keys is in one of the sets.
func (f fieldSets) contain(keys ...string) bool {
	return slices.ContainsFunc(f, func(set content) bool {
		_, ok, _ := unstructured.NestedFieldNoCopy(set, keys...)
		return ok
	})
}
