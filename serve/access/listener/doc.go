// Package listener serves TLS to the clients of package serve, and limits their connections.
//
//	certificates, err := listener.Generate(listener.Options{Dir: dir, Hosts: []string{"10.0.0.7"}})
//	// or, with an operator's own: listener.Load(certFile, keyFile, log)
//	config := certificates.Config(clientCA.Pool) // nil if there are no client certificates
//	server := listener.NewServer(access.NewHandler(handler, options), config, options.Limits, log)
//	err = server.ServeTLS(l, "", "")
//
// # Files of Generate
//
// Its directory has the mode 0700 and three files with the mode 0600:
//
//	ca.pem       the authority: key and certificate. It stays for ten years, since clients keep copies of ca.crt
//	ca.crt       its certificate alone, for a kubeconfig, or for /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
//	serving.pem  the serving certificate and its key, for a week
//
// The serving certificate is renewed when a third of its lifetime is left, also while the process runs, and if it lacks
// a host. Anyone with ca.pem can impersonate the server to its clients; other clients do not trust this authority.
//
// # Files of Load
//
// Certificate and key are reloaded when they change. If the new pair is invalid or does not match, the old pair stays
// in use, and an error is logged.
//
// # TLS
//
// The minimum is TLS 1.2, with Go's choice of cipher suites. The protocol is HTTP/1.1, so each watch has its own
// connection: over HTTP/2 an event costs twice the CPU time. A client with many watches can ask for HTTP/2
// ([Multiplex]), and gets it while few unauthenticated connections are open. The server requests a client certificate
// if there is an authority for them, and access.ClientCA verifies it for each request. An invalid certificate does not
// fail the handshake, so that the client gets a Status.
//
// # Ownership
//
// No goroutines run in the background. Files are checked during handshakes.
package listener
