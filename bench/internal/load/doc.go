// Package load creates the objects of the benchmark. Every object is a function of its number and revision, so no copy
// of a server's objects is needed.
//
// Pods have about 2.7 KB in protobuf, including managedFields, 1,000 in a namespace. ConfigMaps have large bodies.
// Widgets are small custom resources, up to a million.
package load
