// Package fleet simulates thousands of agents that reconnect to one API server, with Larder's reflector and with
// client-go's.
//
// The reflectors are real, with an in-memory transport to a model of an API server. They run in a bubble of
// testing/synctest, so an hour takes seconds and waits are exact. Therefore the program is a test: TestFleet runs each
// scenario with each kind of agent, and with -fleet.out writes the results as fleet.json and as a plot. `make fleet`
// runs it with 5,000 agents; docs/fleet.md has the results.
//
// # The model
//
// The requests share the cores of the server as threads do (processor), behind its priority and fairness: a request
// takes as many seats as in a kube-apiserver v1.36, or waits in a queue (fairness). costs_test.go has the processor
// time and bytes of each request, with the source of each figure. 100 objects stand for 100,000. Writes to the cluster,
// and the server's answers after time zero, depend only on the time (history, scenario).
//
// The model leaves these costs out; the reflector in parentheses profits from it:
//
//   - memory, and slowness without enough of it (client-go, whose lists a server holds in memory, while Larder lists in
//     pages);
//   - etcd;
//   - the processor time of events and of refused requests, and limits of the network (the reflector with the most
//     requests);
//   - client-go's client-side limit of five requests a second (Larder, whose pages are many requests; a rest.Config
//     with QPS -1 has no limit);
//   - the costs of a seed for a CDN and an agent (Larder with a seed).
package fleet
