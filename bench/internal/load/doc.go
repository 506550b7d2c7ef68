// Package load makes the objects that are measured. Every object is a function of its number and revision, so no copy
// of what a server holds has to be kept.
//
// Pods are of about 2.7 KB in protobuf, managedFields included, 1,000 to a namespace; ConfigMaps carry large bodies;
// widgets are small custom resources, of which there can be a million.
package load
