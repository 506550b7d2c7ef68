// Package playground fills an API server with something to look at: three namespaces with Deployments, Pods, Services,
// ConfigMaps and Secrets, and two custom resources with columns of their own. Fill makes what world.yaml says.
//
// There are no controllers and no nodes: the Pods and every status are made as a running cluster would have them, and
// stay as they are.
package playground
