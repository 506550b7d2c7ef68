// Package served measures larder sync --serve beside the kube-apiserver that it mirrors: lists, gets, and watches of
// many clients. Run measures the servers in turn, so that other load on the machine affects both.
//
// Hostile measures the effect of hostile and slow clients on both servers: clients that send nothing, do not read, or
// open many connections.
//
// The client and both servers share the machine. Processor time is the time of one server, from /proc.
package served
