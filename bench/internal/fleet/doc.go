// Package fleet simulates thousands of agents that reconnect to one API server, with Larder's reflector and with
// client-go's.
//
// The reflectors are real. Each has an in-memory transport to a model of an API server, and all run in a bubble of
// testing/synctest, so that an hour takes seconds and waits are exact. The program is therefore a test: TestFleet runs
// each scenario with each kind of agent, and with -fleet.out writes the results as fleet.json and as a plot. `make
// fleet` does that with 5,000 agents; docs/fleet.md has the results.
//
// # The model
//
// A server has cores, which its requests share as threads do (processor), behind the API's priority and fairness: a
// request takes as many seats as with a kube-apiserver v1.36, or waits in a queue (fairness). costs.go has the
// processor time and bytes of each request, with the source of each figure. 100 objects stand for 100,000. The writes
// to the cluster, and how the server answers after time zero, depend only on the time (history, scenario).
//
// The model leaves out, in favour of the reflector in parentheses: memory, and slowness for want of it (client-go,
// whose lists a server holds in memory, while Larder's are pages); etcd; the processor time of events and of refused
// requests, and the limits of the network (whoever makes the most requests); client-go's client-side limit of five
// requests a second (Larder, whose pages are many requests; a rest.Config with QPS -1 has no limit); what a CDN and an
// agent need for a seed (Larder with a seed).
package fleet
