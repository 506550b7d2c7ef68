// Package access protects package serve. It finds the user of a request (Authenticator), checks the user's rights
// (Authorizer), and bounds a user's share of the process (Limits). By default all requests are refused, and so is a
// request whose user or rights cannot be determined.
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
// Package listener has the TLS of the port, and package kubeconfig writes what a client needs.
//
// # Who
//
//	StaticToken      the token of the kubeconfig that the process writes
//	TokenFile        kube-apiserver's --token-auth-file
//	ClientCA         client certificates
//	Upstream         TokenReviews of an API server
//	ServiceAccounts  service-account tokens, by the cluster's stored keys: without the API server
//
// The subprotocol base64url.bearer.authorization.k8s.io.TOKEN of a websocket counts as its Authorization header, and is
// moved there.
//
// Every authenticated user is in the group system:authenticated. There are no anonymous users. A request with an
// Impersonate-* header is refused with 403.
//
// What a token file or an authority says of users and groups is told to the API server in SubjectAccessReviews as is:
// who can write the one or sign for the other can be system:masters there, as far as reading here goes. Take the
// cluster's own client authority, or one that is guarded as well.
//
// # Whether
//
//	Upstream       SubjectAccessReviews of an API server
//	OfflineAccess  a file that maps users and groups to resources
//	Everything     all, for the one user of a StaticToken
//	Nothing        what is left
//
// Only UpstreamOptions.Accounts and a FallbackAuthorizer go past an API server, and only if it cannot be reached: if
// there is no connection, no answer in time, or a gateway says so. An answer counts, also one that says no more than
// "later". A certificate of the API server that cannot be verified counts as no connection: captive portals have those.
//
// Without a fallback clients get 503 while the API server is away. Answers count for 10 s (a "no": 2 s), which is also
// how long somebody gets in after upstream has revoked a token or a right. Package serve asks again about the right to
// a running watch: the watch ends within two minutes of the right, which kube-apiserver's does not. It asks without the
// pod, the node and the id of the token (WithoutCredential), so that all pods of a service account share one review; a
// webhook that decides by those has the last word about a refusal, but cannot end a watch by them. A revoked token ends
// no watch, and neither does an outage: a "no" of a FallbackAuthorizer's rules for it (Decision.Offline) ends only a
// watch that they have allowed.
//
// # What nobody learns
//
// No token or key is in any log or error, at any verbosity, client-go's included; of tokens hashes are kept. Errors for
// clients name neither addresses nor files.
//
// # In a cluster
//
// An agent that uses rest.InClusterConfig needs no change. Its Pod has
//
//   - the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, set to the listener's address. The host must
//     be one of those of the serving certificate (listener.Options.Hosts);
//   - a projected volume at /var/run/secrets/kubernetes.io/serviceaccount, in place of the one that admission adds,
//     with a serviceAccountToken (path token), the listener's ca.crt from a ConfigMap, and the namespace by the
//     downward API.
//
// The token has the API server's audience, so Upstream knows it, and ServiceAccounts while upstream is away.
//
// # Ownership
//
// Nothing runs in the background. Files are looked at when they are used, once a second at most. All types may be used
// concurrently. Users that are handed out are shared and must not be changed.
package access
