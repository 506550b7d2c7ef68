// Package playground fills an API server with example objects: three namespaces with Deployments, Pods, Services,
// ConfigMaps and Secrets, and two custom resources with columns. Call Fill.
//
// There are no controllers and no nodes. Pods and statuses are written as in a running cluster, and do not change.
package playground
