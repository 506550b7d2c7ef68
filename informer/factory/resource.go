package factory

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/entry"
)

// clusterScoped has the kinds of client-go's types that have no namespace. Without discovery, the scope of a type is
// known only from this list.
var clusterScoped = strings.Fields(`
	CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle ComponentStatus
	DeviceClass DeviceTaintRule FlowSchema IPAddress IngressClass MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
	MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration
	ResourcePoolStatusRequest ResourceSlice RuntimeClass ServiceCIDR StorageClass StorageVersion StorageVersionMigration
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment
	VolumeAttributesClass`)

// resource is a type that client-go has a typed informer for.
type resource struct {
	schema.GroupVersionResource
	entry.ResourceInfo // ResourceInfo has only the fields that are known without discovery
	example            runtime.Object
}

func resourcesOf(examples []runtime.Object) (found []resource, err error) {
	if len(examples) == 0 {
		return nil, errors.New("no types are listed: nothing would be stored; list an example object of each type whose " +
			"informer is to be persistent")
	}
	listed := map[reflect.Type]bool{}
	for _, example := range examples {
		r, ok := resourceOf(example)
		if !ok {
			return nil,
				fmt.Errorf("client-go has no typed informer for %T; use NewDynamicSharedInformerFactory, or informer.New", example)
		}
		t := reflect.TypeOf(example)
		if listed[t] {
			return nil, fmt.Errorf("%T is listed twice", example)
		}
		listed[t] = true
		found = append(found, r)
	}
	return found, nil
}

// resourceOf returns the resource of an example object, and false if client-go's scheme does not know it. The plural
// name is meta's guess, which TestResourcesAreComplete verifies for all types.
func resourceOf(example runtime.Object) (r resource, ok bool) {
	if _, ok := example.(metav1.Object); !ok {
		return r, false
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil {
		return r, false
	}
	gvr, _ := meta.UnsafeGuessKindToResource(gvks[0])
	kind := gvks[0].Kind
	info := entry.ResourceInfo{Kind: kind, Namespaced: !slices.Contains(clusterScoped, kind)}
	return resource{gvr, info, example}, true
}
