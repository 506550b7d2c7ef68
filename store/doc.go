// Package store keeps Kubernetes objects, their secondary indexes and the
// resourceVersion that covers them in one bbolt file.
package store
