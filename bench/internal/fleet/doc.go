// Package fleet simulates thousands of agents that come back to one API server, with Larder's reflector and with
// client-go's.
//
// The reflectors are the real ones. Each has a transport in memory to a model of an API server, and all run in a bubble
// of testing/synctest, so that an hour takes seconds and what is waited for is exact. The program is therefore a test:
// TestFleet runs each scenario with each kind of agent, and with -fleet.out writes what it saw, as fleet.json and as a
// plot. `make fleet` does that with 5,000 agents; docs/fleet.md says what came out.
//
// # The model
//
// A server has cores, which its requests share as threads do (processor), and the API's priority and fairness in front
// of them: seats, of which a request takes as many as a kube-apiserver v1.36 would give it, and a queue for those that
// find none (fairness). What a request costs in processor time and bytes is in costs.go, each figure with where it was
// measured. 100 objects stand for the 100,000 that are charged for. What is written to the cluster, and how the server
// answers after time zero, depend on nothing but the time (history, scenario).
//
// What it leaves out, and whom that favours: memory, and the slowness that comes with too little of it (client-go's
// lists, which a server holds in memory; Larder's are pages); etcd; the processor time of events and of refused
// requests, and the network's limits (those who ask most); client-go's client-side limit of five requests a second
// (Larder, whose pages are many requests; a rest.Config with QPS -1 has none).
package fleet
