// Package shared reads facts about a server (its cluster's id, its version, its schemas) once for all informers that
// need them at about the same time: [New] makes a [Value] of a function that reads a fact.
//
// The functions in informer.Options have no parameter for the maximum age of their answer. So the caller passes it in
// the context ([Ask]), and gets the answer's age from there ([Asked.Read]). A function that reads from the server at
// each call ignores both.
package shared
