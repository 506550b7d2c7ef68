package fakeapi

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields that can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
	fieldNode      = "spec.nodeName"
	fieldPhase     = "status.phase"
)

// listOptions are the query parameters of list and watch.
type listOptions struct {
	labels labels.Selector
	fields fields.Selector
	// shard is nil if there is none, or the server ignores it.
	shard sharding.Selector
	limit int
	token string
	watch bool
	// rv is 0 if the client gave none, or "0"; hasRV tells them apart.
	rv        uint64
	hasRV     bool
	match     metav1.ResourceVersionMatch
	bookmarks bool
	// initial is nil if the client did not say.
	initial *bool
	timeout time.Duration
}

// gates are the feature gates of kube-apiserver that list options depend on.
type gates struct {
	watchList, sharding bool
}

func parseListOptions(query url.Values, k *kind, on gates) (listOptions, error) {
	o := listOptions{
		token: query.Get("continue"),
		match: metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")),
	}
	p := queryParser{values: query}
	o.watch = p.flag("watch")
	o.bookmarks = p.flag("allowWatchBookmarks")
	o.limit = int(p.number("limit"))
	o.rv = p.number("resourceVersion")
	o.hasRV = query.Get("resourceVersion") != ""
	o.timeout = time.Duration(p.number("timeoutSeconds")) * time.Second
	if query.Get("sendInitialEvents") != "" {
		initial := p.flag("sendInitialEvents")
		o.initial = &initial
	}
	if p.err != nil {
		return o, p.err
	}
	var err error
	if o.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	if o.fields, err = parseFieldSelector(query.Get("fieldSelector"), k); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	if err := o.validate(on.watchList); err != nil {
		return o, err
	}
	if s := query.Get("shardSelector"); s != "" && on.sharding {
		o.shard, err = parseShardSelector(s)
	}
	return o, err
}

// parseFieldSelector accepts the fields that the kind can be selected by.
func parseFieldSelector(s string, k *kind) (fields.Selector, error) {
	selector, err := fields.ParseSelector(s)
	if err != nil {
		return nil, err
	}
	for _, r := range selector.Requirements() {
		switch {
		case r.Field == fieldName:
		case r.Field == fieldNamespace && k.Namespaced:
		case k.Kind == "Pod" && (r.Field == fieldNode || r.Field == fieldPhase):
		default:
			return nil, fmt.Errorf("field label not supported: %s", r.Field)
		}
	}
	return selector, nil
}

// validate refuses what kube-apiserver refuses; watchList is its feature gate.
func (o listOptions) validate(watchList bool) error {
	var errs field.ErrorList
	forbid := func(name, why string) { errs = append(errs, field.Forbidden(field.NewPath(name), why)) }
	switch {
	case o.watch && o.initial != nil && o.match != metav1.ResourceVersionMatchNotOlderThan:
		forbid("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	case o.watch && o.initial != nil && !watchList:
		forbid("sendInitialEvents", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	case o.watch && o.initial == nil && o.match != "":
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	case !o.watch && o.initial != nil:
		forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
	case !o.watch && o.match != "" && !o.hasRV:
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
	case !o.watch && o.match != "" && o.token != "":
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
	case !o.watch && o.match == metav1.ResourceVersionMatchExact && o.rv == 0:
		forbid("resourceVersionMatch", `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
	case o.match != "" && o.match != metav1.ResourceVersionMatchExact &&
		o.match != metav1.ResourceVersionMatchNotOlderThan:
		forbid("resourceVersionMatch", "only Exact and NotOlderThan are supported")
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	if !o.watch && o.token != "" && o.rv != 0 {
		return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return nil
}

// selects reports whether the options select the object, which may be nil.
func (q *request) selects(o *object) bool {
	switch {
	case o == nil:
		return false
	case q.namespace != "" && o.namespace != q.namespace:
		return false
	}
	return q.options.labels.Matches(o.labels) && q.options.fields.Matches(o) && q.options.inShard(o)
}

// selectsAll reports whether there are no selectors.
func (o listOptions) selectsAll() bool { return o.labels.Empty() && o.fields.Empty() && o.shard == nil }

// queryParser remembers the first error.
type queryParser struct {
	values url.Values
	err    error
}

func (p *queryParser) flag(name string) bool {
	value := p.values.Get(name)
	if value == "" {
		return false
	}
	b, err := strconv.ParseBool(value)
	p.fail(name, value, err)
	return b
}

func (p *queryParser) number(name string) uint64 {
	value := p.values.Get(name)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 63)
	p.fail(name, value, err)
	return n
}

func (p *queryParser) fail(name, value string, err error) {
	if err != nil && p.err == nil {
		p.err = apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q for %s", value, name))
	}
}
