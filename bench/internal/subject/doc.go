// Package subject starts the compared informers, each as a user would: Larder with its guards, and client-go with its
// defaults. It counts the bytes that their clients receive, and can hold their connections.
//
// A Spec names one informer; Start runs it.
package subject
