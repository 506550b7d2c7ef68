package serve

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	gopath "path"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/store/query"
)

type listOptions struct {
	internalversion.ListOptions
	labels labels.Selector
	fields fields.Selector
	rv     uint64
	token  *token
}

func (o *listOptions) selective() bool { return !o.labels.Empty() || !o.fields.Empty() }

func (o *listOptions) wantsInitial() bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

func everything() *listOptions {
	return &listOptions{labels: labels.Everything(), fields: fields.Everything()}
}

// parseListOptions parses the query parameters of a list or watch. It rejects queries that kube-apiserver rejects.
func parseListOptions(query url.Values) (*listOptions, error) {
	o := everything()
	if err := scheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, &o.ListOptions); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	errs := validation.ValidateListOptions(&o.ListOptions, true)
	if o.Watch && o.Continue != "" && len(errs) == 0 {
		errs = append(errs, field.Forbidden(field.NewPath("resourceVersionMatch"),
			"resourceVersionMatch is forbidden when continue is provided"))
	}
	if len(errs) > 0 {
		kind := metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind()
		return o, apierrors.NewInvalid(kind, "", errs)
	}
	if o.LabelSelector != nil {
		o.labels = o.LabelSelector
	}
	if o.FieldSelector != nil {
		o.fields = o.FieldSelector
	}
	var err error
	if o.rv, err = parseRV(o.ResourceVersion); err != nil {
		if !o.Watch {
			err = apierrors.NewBadRequest("invalid resource version: " + err.Error())
		}
		return o, err
	}
	if !o.Watch && o.Continue != "" {
		if o.rv != 0 {
			return o, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		o.token, err = parseToken(o.Continue)
	}
	return o, err
}

// checkTimeout rejects an invalid timeout parameter as kube-apiserver does. A valid timeout has no effect:
// access.Limits bounds the duration of requests.
func checkTimeout(query url.Values) error {
	if text := query.Get("timeout"); text != "" {
		if _, err := time.ParseDuration(text); err != nil {
			return apierrors.NewBadRequest("invalid timeout specified in the request URL - " + err.Error())
		}
	}
	return nil
}

// parseRV parses a resourceVersion; "" is 0. Its error is kube-apiserver's: a 500 without a reason.
func parseRV(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
			Code: http.StatusInternalServerError, Message: fmt.Sprintf("resourceVersion: Invalid value: %q: %v", text, err)}}
	}
	return rv, nil
}

func (k *kind) checkFields(selector fields.Selector) error {
	builtIn := k.collections[0].builtIn
	_, special := discovery.SelectableFields(k.GroupResource())
	for _, r := range selector.Requirements() {
		switch {
		case builtIn && discovery.IsSelectableField(k.GroupResource(), r.Field):
		case !builtIn && (r.Field == "metadata.name" || r.Field == "metadata.namespace" && k.Namespaced ||
			slices.Contains(k.SelectableFields, r.Field)):
		case builtIn && !special:
			return apierrors.NewBadRequest(fmt.Sprintf(
				`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, r.Field))
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return nil
}

// matcherOf returns a function that reports whether an entry matches the selectors of a list or a watch; nil if all
// entries match. The function is not safe for concurrent use.
func matcherOf(c *collection, o *listOptions) func(entry.Entry) (bool, error) {
	if !o.selective() {
		return nil
	}
	fields, sources := discovery.StoredFields(c.Identity.GroupResource(), o.fields)
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

const inconsistentRV = -1

// token encodes where the next page of a list begins, in kube-apiserver's opaque format.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	// Start is the key at which the next page begins, relative to the list's namespace.
	Start string `json:"start"`
	Left  int    `json:"left,omitempty"`
}

func (t token) encode() string {
	t.Version = metav1.SchemeGroupVersion.String()
	data, _ := json.Marshal(t) // Marshal cannot fail: the token has only strings and numbers
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseToken(text string) (*token, error) {
	var t token
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	switch {
	case err != nil:
	case t.Version != metav1.SchemeGroupVersion.String():
		err = fmt.Errorf("server does not recognize this encoded version %s", t.Version)
	case t.RV == 0 || t.RV < inconsistentRV:
		err = fmt.Errorf("incorrect encoded start resourceVersion (version %s)", t.Version)
	case t.Start == "":
		err = fmt.Errorf("encoded start key empty (version %s)", t.Version)
	case gopath.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		err = errors.New(t.Start)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	return &t, nil
}

// startOf returns the start, relative to the list's prefix, of the page after the object with the given key.
func startOf(key, prefix string) string { return "/" + strings.TrimPrefix(key, prefix) + "\x00" }

// after returns the key after which the token's page begins. A token of kube-apiserver may instead contain the first
// key of the page. after then returns the greatest key before that key.
func (t *token) after(prefix string) string {
	start := prefix + strings.TrimPrefix(t.Start, "/")
	if key, ok := strings.CutSuffix(start, "\x00"); ok {
		return key
	}
	if start == "" {
		return ""
	}
	return start[:len(start)-1] + string([]byte{start[len(start)-1] - 1, 0xff})
}
