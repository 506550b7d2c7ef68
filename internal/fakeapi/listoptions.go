package fakeapi

import (
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
)

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
	fieldNode      = "spec.nodeName"
	fieldPhase     = "status.phase"
)

type listOptions struct {
	internalversion.ListOptions
	labels labels.Selector
	fields fields.Selector
	shard  sharding.Selector
	// rv is the requested resourceVersion. It is 0 if none was requested, or "0".
	rv uint64
}

// gates are the feature gates of kube-apiserver that change how a server reads list options.
type gates struct {
	watchList, sharding bool
}

// parseListOptions returns the list options in a query. It refuses the same options as kube-apiserver, with the same
// texts.
func parseListOptions(query url.Values, k *kind, on gates) (listOptions, error) {
	o := listOptions{labels: labels.Everything(), fields: fields.Everything()}
	if err := scheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, &o.ListOptions); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateListOptions(&o.ListOptions, on.watchList); len(errs) > 0 {
		return o, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	if o.ResourceVersion != "" {
		rv, err := strconv.ParseUint(o.ResourceVersion, 10, 63)
		if err != nil {
			return o, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q for resourceVersion", o.ResourceVersion))
		}
		o.rv = rv
	}
	if !o.Watch && o.Continue != "" && o.rv != 0 {
		return o, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if o.LabelSelector != nil {
		o.labels = o.LabelSelector
	}
	if o.FieldSelector != nil {
		o.fields = o.FieldSelector
	}
	if err := k.checkFields(o.fields); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	var err error
	if o.ShardSelector != "" && on.sharding {
		o.shard, err = parseShardSelector(o.ShardSelector)
	}
	return o, err
}

func (k *kind) checkFields(selector fields.Selector) error {
	for _, r := range selector.Requirements() {
		switch {
		case r.Field == fieldName:
		case r.Field == fieldNamespace && k.Namespaced:
		case k.Kind == "Pod" && (r.Field == fieldNode || r.Field == fieldPhase):
		default:
			return fmt.Errorf("field label not supported: %s", r.Field)
		}
	}
	return nil
}

// selects reports whether an object matches the request's namespace and selectors. A nil object never matches.
func (q *request) selects(o *object) bool {
	switch {
	case o == nil:
		return false
	case q.namespace != "" && o.namespace != q.namespace:
		return false
	}
	return q.options.labels.Matches(o.labels) && q.options.fields.Matches(o) && q.options.inShard(o)
}

func (o listOptions) selectsAll() bool { return o.labels.Empty() && o.fields.Empty() && o.shard == nil }
