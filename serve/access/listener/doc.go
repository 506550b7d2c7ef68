// Package listener has the TLS of the port that clients of package serve connect to, and bounds its connections.
//
//	certificates, err := listener.Generate(listener.Options{Dir: dir, Hosts: []string{"10.0.0.7"}})
//	// or, with an operator's own: listener.Load(certFile, keyFile, log)
//	config := certificates.Config(clientCA.Pool) // nil if there are no client certificates
//	server := listener.NewServer(access.NewHandler(handler, options), config, options.Limits, log)
//	err = server.ServeTLS(l, "", "")
//
// # Files of Generate
//
// In its directory (0700) are three files (0600):
//
//	ca.pem       the authority: key and certificate. It stays for ten years, since clients keep copies of ca.crt
//	ca.crt       its certificate alone, for a kubeconfig, or for /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
//	serving.pem  the serving certificate and its key, for a week
//
// The serving certificate is made anew once a third of its time is left, also while the process runs, and if it lacks a
// host. Whoever has ca.pem can pass for the server towards those clients; nobody else's trust is touched.
//
// # Files of Load
//
// Certificate and key are read anew when they change. A pair that is damaged or does not match leaves the one before,
// and is logged.
//
// # TLS
//
// The minimum is TLS 1.2, with Go's choice of cipher suites. The protocol is HTTP/1.1, so each watch has a connection
// of its own: over HTTP/2 an event costs twice the processor time. Clients with many watches can ask for HTTP/2
// ([Multiplex]), which they get while few strangers are connected. A client certificate is asked for if there is an
// authority for them, and verified by access.ClientCA at each request: a wrong one does not end the handshake, so that
// its owner gets a Status instead.
//
// # Ownership
//
// Nothing runs in the background. Files are looked at during handshakes.
package listener
