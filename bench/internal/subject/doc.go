// Package subject starts the informers that are compared, each as its users would: Larder with its guards on, and client-go's
// as it comes, over clients whose connections are counted and can be held.
//
// Larder's residencies are listed in one place: residency.go.
package subject
