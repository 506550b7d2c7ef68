package columns

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

var roleBindings = kind{
	names: []string{"Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"},
	cells: func(o object, now time.Time) []any {
		subjects := map[string][]string{}
		for _, s := range o.list("subjects") {
			name := s.text("name")
			if s.text("kind") == "ServiceAccount" {
				name = s.text("namespace") + "/" + name
			}
			subjects[s.text("kind")] = append(subjects[s.text("kind")], name)
		}
		join := func(kind string) string { return strings.Join(subjects[kind], ", ") }
		role := o.text("roleRef", "kind") + "/" + o.text("roleRef", "name")
		return []any{o.name(), role, o.age(now), join("User"), join("Group"), join("ServiceAccount")}
	},
}

var signingRequests = kind{
	names: []string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
	cells: func(o object, now time.Time) []any {
		requested := none
		if o.has("spec", "expirationSeconds") {
			requested = duration.HumanDuration(time.Duration(o.number("spec", "expirationSeconds")) * time.Second)
		}
		return []any{
			o.name(), o.age(now), or(o.text("spec", "signerName"), none), o.text("spec", "username"), requested,
			requestCondition(o),
		}
	},
}

func requestCondition(o object) string {
	condition := "Pending"
	switch {
	case o.condition("Denied") != nil:
		condition = "Denied"
	case o.condition("Approved") != nil:
		condition = "Approved"
	}
	if o.condition("Failed") != nil {
		condition += ",Failed"
	}
	if o.size("status", "certificate") > 0 {
		condition += ",Issued"
	}
	return condition
}

var trustBundles = kind{
	names: []string{"Name", "SignerName"},
	cells: func(o object, _ time.Time) []any { return []any{o.name(), or(o.text("spec", "signerName"), none)} },
}

var podCertificates = kind{
	names: []string{
		"Name", "PodName", "ServiceAccountName", "NodeName", "SignerName", "State", "UnverifiedUserAnnotations",
	},
	cells: func(o object, _ time.Time) []any {
		state := "Pending"
		for _, c := range o.list("status", "conditions") {
			switch kind := c.text("type"); kind {
			case "Issued", "Denied", "Failed":
				state = kind
			}
		}
		s := o.child("spec")
		return []any{
			o.name(), s.text("podName"), s.text("serviceAccountName"), s.text("nodeName"), s.text("signerName"), state,
			formatLabels(s.labels("unverifiedUserAnnotations")),
		}
	},
}

var webhooks = kind{
	names: []string{"Name", "Webhooks:integer", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), int64(o.size("webhooks")), o.age(now)} },
}

var validatingPolicies = admissionPolicies("Validations", "validations")

var mutatingPolicies = admissionPolicies("Mutations", "mutations")

// admissionPolicies returns the table of an admission policy resource. column counts the items of the list field in the
// object's spec.
func admissionPolicies(column, field string) kind {
	return kind{
		names: []string{"Name", column + ":integer", "ParamKind", "Age"},
		cells: func(o object, now time.Time) []any {
			param := unset
			if k := o.child("spec", "paramKind"); k != nil {
				param = k.text("apiVersion") + "/" + k.text("kind")
			}
			return []any{o.name(), int64(o.size("spec", field)), param, o.age(now)}
		},
	}
}

var policyBindings = kind{
	names: []string{"Name", "PolicyName", "ParamRef", "Age"},
	cells: func(o object, now time.Time) []any {
		param := unset
		if ref := o.child("spec", "paramRef"); ref.text("name") != "" {
			param = or(ref.text("namespace"), "*") + "/" + ref.text("name")
		} else if ref.has("selector") {
			param = o.labelSelector("spec", "paramRef", "selector").String()
		}
		return []any{o.name(), o.text("spec", "policyName"), param, o.age(now)}
	},
}
