// Package subject starts the informers that are compared, each as its users would: Larder with its guards on, and
// client-go's by default, over clients whose received bytes are counted and whose connections can be held.
//
// A Spec names one informer.
package subject
