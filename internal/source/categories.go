package source

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// categories has the categories of built-in resources, such as "all". It serves stores without stored categories.
var categories = map[schema.GroupResource][]string{
	{Resource: "pods"}:                                           {all},
	{Resource: "replicationcontrollers"}:                         {all},
	{Resource: "services"}:                                       {all},
	{Group: "apps", Resource: "daemonsets"}:                      {all},
	{Group: "apps", Resource: "deployments"}:                     {all},
	{Group: "apps", Resource: "replicasets"}:                     {all},
	{Group: "apps", Resource: "statefulsets"}:                    {all},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {all},
	{Group: "batch", Resource: "cronjobs"}:                       {all},
	{Group: "batch", Resource: "jobs"}:                           {all},

	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   {extensions},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:                 {extensions},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                             {extensions},
}

const (
	all        = "all"
	extensions = "api-extensions"
)

// Members returns the built-in resources of a category, sorted by group and name.
func Members(category string) []schema.GroupResource {
	var members []schema.GroupResource
	for gr, of := range categories {
		if slices.Contains(of, category) {
			members = append(members, gr)
		}
	}
	slices.SortFunc(members, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return members
}

// WellKnown returns the names of the built-in resources that have short names, in alphabetical order.
func WellKnown() []string {
	var known []string
	for gr := range shortNames {
		if !slices.Contains(known, gr.Resource) {
			known = append(known, gr.Resource)
		}
	}
	slices.Sort(known)
	return known
}
