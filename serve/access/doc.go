// Package access protects package serve. It determines the user of a request (Authenticator), checks the user's rights
// (Authorizer), and limits a user's share of the process (Limits). The default rejects all requests. A request is also
// rejected if its user or rights cannot be determined.
//
//	upstream, err := access.NewUpstream(config, access.UpstreamOptions{Accounts: serviceAccounts})
//	users := access.Union(clientCA, tokenFile, upstream)
//	rights := access.FallbackAuthorizer(upstream, offlineAccess)
//	handler := access.NewHandler(next, access.HandlerOptions{Authenticator: users})
//
// and, in next:
//
//	user, _ := access.UserFrom(r.Context())
//	if err := access.Require(r.Context(), rights, access.Attributes{User: user, …}); err != nil {
//		access.WriteError(w, r, err)
//	}
//
// Package listener serves TLS, and package kubeconfig writes kubeconfig files for clients.
//
// # Authentication
//
//	StaticToken      the token of the kubeconfig that the process writes
//	TokenFile        kube-apiserver's --token-auth-file
//	ClientCA         client certificates
//	Upstream         TokenReviews of an API server
//	ServiceAccounts  service-account tokens, verified with the cluster's stored keys, without the API server
//
// A token in a websocket's subprotocol, base64url.bearer.authorization.k8s.io.TOKEN, is moved to the Authorization
// header.
//
// Every authenticated user is in the group system:authenticated. There are no anonymous users. A request with an
// Impersonate-* header returns 403.
//
// Users and groups from a token file or a certificate are sent to the API server unchanged in SubjectAccessReviews.
// Anyone who can write the file, or sign with the authority, can therefore read as system:masters. Use the cluster's
// own client authority, or one that is protected as well.
//
// # Authorization
//
//	Upstream       SubjectAccessReviews of an API server
//	OfflineAccess  a file that maps users and groups to resources
//	Everything     all rights, for the user of a StaticToken
//	Nothing        no rights
//
// Only UpstreamOptions.Accounts and a FallbackAuthorizer replace the API server, and only while it is unreachable:
// without a connection, after a timeout, or after a gateway's error. Any answer of the API server counts, even a 429. A
// certificate that cannot be verified counts as no connection, since captive portals have such certificates.
//
// Without a fallback, clients get 503 while the API server is unreachable. Decisions are cached for 10 s (denials for 2
// s), so a revoked token or right may still work for that long. Package serve authorizes running watches again. Unlike
// in kube-apiserver, a watch ends within two minutes after its user has lost the right. The question omits the pod, the
// node and the ID of the token (WithoutCredential), so that all pods of a service account share one review. A webhook
// that decides by these values is asked before a denial ends a watch, but it cannot end a watch by them. Neither a
// revoked token nor an outage ends a watch. A denial by a FallbackAuthorizer's rules for an outage (Decision.Offline)
// ends only a watch that these rules have allowed.
//
// # Secrecy
//
// No token or key appears in a log or an error at any verbosity, including client-go's. Tokens are kept as hashes.
// Errors for clients contain neither addresses nor file names.
//
// # In a cluster
//
// An agent that uses rest.InClusterConfig needs no code change. Its Pod needs
//
//   - the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, set to the listener's address. The host must
//     be in the serving certificate (listener.Options.Hosts);
//   - a projected volume at /var/run/secrets/kubernetes.io/serviceaccount, which replaces the volume of the admission
//     plugin, with a serviceAccountToken (path token), the listener's ca.crt from a ConfigMap, and the namespace from
//     the downward API.
//
// The token has the API server's audience, so Upstream accepts it, as does ServiceAccounts during an outage.
//
// # Ownership
//
// No goroutines run in the background. Files are checked for changes when they are used, at most once a second. All
// types are safe for concurrent use. Returned users are shared and must not be modified.
package access
