package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
