// Package shared reads what a server says about itself (its cluster's id, its version, its schemas) once for all
// informers that ask at about the same time: [New] makes a [Value] of a function that reads it.
//
// A function of informer.Options has no parameter for how old its answer may be. So the caller passes that in the
// context ([Ask]), and learns from it how old the answer is ([Asked.Read]). A function that reads from the server at
// each call needs neither.
package shared
