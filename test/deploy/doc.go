// Package deploy tests deploy/chart: it is rendered by Helm's own code, its objects and the pods that it makes are put
// before a real kube-apiserver, and what the pods' containers would run is run against that, with the rights that the
// chart gives. There is no kubelet.
//
// The files of deploy/manifests are what the chart renders; after a change of the chart write them anew:
//
//	go test . -run '^TestManifests$' -update
package deploy
