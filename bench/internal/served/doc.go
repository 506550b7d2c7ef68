// Package served measures what larder sync --serve answers beside the kube-apiserver that it mirrors: lists, gets, and
// the watches of many clients. Run asks both in turn, so that other load on the machine affects both.
//
// Hostile measures what clients do to both that send nothing, do not read, or come in large numbers.
//
// The client and both servers share the machine. Processor time is that of the server alone, by /proc.
package served
