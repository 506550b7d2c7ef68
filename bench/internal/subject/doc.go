// Package subject starts the informers that are compared, each as its users would: Larder with its guards on, and
// client-go with its defaults. It counts the bytes that their clients receive, and can hold their connections.
//
// A Spec names one informer; Start runs it.
package subject
