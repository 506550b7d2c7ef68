// Package cluster connects the commands to the API server. It has kubectl's connection flags ([Flags]) and the
// resulting configuration ([Config]), the clients of a server and of a resource ([Server], [Connection]), discovery
// ([Server.Discover]), the resolution of resource names ([Resolver], [Wanted]), and explanations of the server's errors
// ([ServerError]).
//
// The package starts no goroutines. Close a Server to close its idle connections.
package cluster
