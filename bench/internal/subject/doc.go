// Package subject starts the informers that are compared, each as its users would: Larder with its guards on, and
// client-go's as it comes, over clients whose connections are counted and can be held.
//
// What can be compared is in spec.go: a Spec names one informer.
package subject
