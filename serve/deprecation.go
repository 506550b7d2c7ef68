package serve

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// deprecation is the warning for a deprecated version of a kind, and the Kubernetes release since which kube-apiserver
// sends that warning. The zero value means that the version is not deprecated.
type deprecation struct {
	text string
	// since is nil if all releases send the warning.
	since *utilversion.Version
}

// deprecationOf returns the deprecation of a built-in kind, in the words of k8s.io/apiserver/pkg/endpoints/deprecation.
// The releases come from the Go types of client-go.
func deprecationOf(gvk schema.GroupVersionKind) (d deprecation) {
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return d
	}
	deprecated, ok := obj.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return d
	}
	major, minor := deprecated.APILifecycleDeprecated()
	if major == 0 && minor == 0 {
		return d
	}
	d.since = utilversion.MustParseGeneric(fmt.Sprintf("%d.%d", major, minor))
	d.text = fmt.Sprintf("%s %s is deprecated in v%d.%d+", gvk.GroupVersion(), gvk.Kind, major, minor)
	return deprecation{since: d.since, text: d.text + removal(obj) + replacement(obj)}
}

func removal(obj runtime.Object) string {
	if o, ok := obj.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		if major, minor := o.APILifecycleRemoved(); major != 0 || minor != 0 {
			return fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	return ""
}

func replacement(obj runtime.Object) string {
	if o, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		if r := o.APILifecycleReplacement(); !r.Empty() {
			return fmt.Sprintf("; use %s %s", r.GroupVersion(), r.Kind)
		}
	}
	return ""
}

// deprecation returns the deprecation of the requested version of a kind. The deprecation of a custom resource comes
// from its CustomResourceDefinition.
func (k *kind) deprecation() deprecation {
	if c := k.collections[0]; c.builtIn {
		return c.deprecated
	}
	return deprecation{text: k.Deprecated}
}

// maxDeprecation bounds the text of a warning, in bytes. The text may come from an untrusted snapshot.
const maxDeprecation = 1 << 10

// warning returns the Warning header that an API server of the given release sends for the deprecation. It returns ""
// if that server sends none, or if the release is unknown but the warning depends on it.
func (d deprecation) warning(release *utilversion.Version) string {
	if d.text == "" || len(d.text) > maxDeprecation || d.since != nil && (release == nil || release.LessThan(d.since)) {
		return ""
	}
	header, err := utilnet.NewWarningHeader(299, "", d.text)
	if err != nil {
		return ""
	}
	return header
}

func releaseOf(v *version.Info) *utilversion.Version {
	if v == nil {
		return nil
	}
	minor := v.Minor // vendors append a sign to the number, as in 27+
	if end := strings.IndexFunc(minor, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		minor = minor[:end]
	}
	release, err := utilversion.ParseGeneric(v.Major + "." + minor)
	if err != nil {
		return nil
	}
	return release
}
