// Package cluster is the API server as the commands know it: kubectl's flags of the connection ([Flags]) and the
// configuration that they lead to ([Config]), the clients of one resource ([Connection]), the resources that the server
// has ([Discover]), what a user's words name of them ([Resolver], [Wanted]), and what its errors mean ([ServerError]).
//
// Nothing here runs by itself: who connects closes the idle connections.
package cluster
