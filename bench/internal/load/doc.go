// Package load makes the objects of the benchmark. Every object is a function of its number and revision, so no copy of
// a server's objects is needed.
//
// Pods are of about 2.7 KB in protobuf, managedFields included, 1,000 to a namespace; ConfigMaps carry large bodies;
// widgets are small custom resources, of which there can be a million.
package load
