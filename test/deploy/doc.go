// Package deploy tests deploy/chart without a kubelet. Helm's own code renders the chart, and a kube-apiserver admits
// the objects and the pods of their workloads. The commands of the pods' containers then run against that server, with
// the chart's rights.
//
// The files of deploy/manifests are rendered from the chart. After a change of the chart, update them:
//
//	go test . -run '^TestManifests$' -update
package deploy
