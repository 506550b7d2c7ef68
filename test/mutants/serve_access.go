package main

var serveAccessMutants = []mutant{
	{
		name:   "access/anonymous",
		breaks: "The user system:anonymous is not authenticated, whatever authenticator returns it.",
		file:   "serve/access/access.go",
		old:    `u.Username == "" || u.Username == userAnonymous ||`,
		new:    `u.Username == "" ||`,
		test:   "TestHandlerRejectsUnauthenticated",
	},
	{
		name:   "access/impersonation-ignored",
		breaks: "A request that impersonates is refused, not answered as its sender's.",
		file:   "serve/access/handler.go",
		old: `	if err := refuseImpersonation(r, own.user); err != nil {
`,
		new: `	if err := refuseImpersonation(r, own.user); err != nil && own.user.Username == "" {
`,
		test: "TestImpersonationIsRefused",
	},
	{
		name:   "access/offline-after-a-no",
		breaks: "A token that the API server refuses is not tried on the stored keys.",
		file:   "serve/access/upstream.go",
		old:    `case errors.Is(err, ErrUnreachable) && (signed || refused != nil):`,
		new:    `case !errors.Is(err, errForged) && !answer.ok && (signed || refused != nil):`,
		test:   "TestAccountsWhileUpstreamIsAway",
	},
	{
		name:   "access/rights-after-a-no",
		breaks: "Offline rights count only if the API server cannot be reached.",
		file:   "serve/access/access.go",
		old: `	if !errors.Is(err, ErrUnreachable) {
		return d, err
	}
`,
		new: `	if d.Allowed {
		return d, err
	}
`,
		test: "TestFallbackAuthorizer",
	},
	{
		name:   "access/overload-is-an-outage",
		breaks: "An API server that says \"later\" has been reached.",
		file:   "serve/access/review.go",
		old: `	case http.StatusTooManyRequests:
		e.code = http.StatusTooManyRequests
`,
		new: `	case http.StatusTooManyRequests:
		e.code, e.unreachable = http.StatusTooManyRequests, true
`,
		test: "TestUnreachable",
	},
	{
		name:   "access/token-without-an-expiry",
		breaks: "A service-account token that does not expire does not count offline.",
		file:   "serve/access/service_accounts.go",
		old: `	if public.Expiry == nil {
`,
		new: `	if public.Expiry == nil && public.Issuer == "" {
`,
		test: "TestServiceAccountsRefuse",
	},
	{
		name:   "access/token-for-others",
		breaks: "A service-account token for another audience does not count.",
		file:   "serve/access/service_accounts.go",
		old:    `jwt.Expected{Issuer: i.url, AnyAudience: i.audiences}`,
		new:    `jwt.Expected{Issuer: i.url}`,
		test:   "TestServiceAccountsRefuse",
	},
	{
		name:   "access/hmac",
		breaks: "The cluster's public key is not taken for the secret of an HMAC.",
		file:   "serve/access/service_accounts.go",
		old:    `[]jose.SignatureAlgorithm{jose.RS256,`,
		new:    `[]jose.SignatureAlgorithm{jose.HS256, jose.RS256,`,
		test:   "TestServiceAccountsIgnoreOtherTokens",
	},
	{
		name:   "access/secrets-by-a-star",
		breaks: "\"*\" does not have Secrets.",
		file:   "serve/access/access.go",
		old: `if r == secrets || withheld == nil {
		return r == secrets, nil
	}`,
		new: `if withheld == nil {
		return false, nil
	}`,
		test: "TestOfflineAccess",
	},
	{
		name:   "access/namesake",
		breaks: "Whom another authenticator calls by the name of Larder's own user does not have that user's rights.",
		file:   "serve/access/access.go",
		old:    `u.Username == e.User.Username && u.UID == e.User.UID`,
		new:    `u.Username == e.User.Username`,
		test:   "TestEverythingIsForOneUser",
	},
	{
		name:   "access/tokens-in-the-log-of-client-go",
		breaks: "No token is in a log, at any verbosity.",
		file:   "serve/access/review.go",
		old:    `klog.NewContext(ctx, logr.Discard())`,
		new:    `klog.NewContext(ctx, logr.Logger(klog.Background()))`,
		test:   "TestNoCredentials",
	},
	{
		name:   "access/watches-of-a-user",
		breaks: "One user cannot have all watches.",
		file:   "serve/access/limits.go",
		old:    `c.all.watches >= c.limits.Watches || c.users[user].watches >= c.limits.WatchesPerUser`,
		new:    `c.all.watches >= c.limits.Watches`,
		test:   "TestWatches",
	},
	{
		name:   "access/half-open",
		breaks: "Idle connections do not keep out clients with requests.",
		file:   "internal/connlimit/limiter.go",
		old: `	case l.unauthenticated > 0:
		return l.evictUnauthenticated(c)
	case l.idle`,
		new:  `	case l.idle`,
		test: "TestHalfOpenConnections",
		dir:  "serve/access/listener",
	},
	{
		name:   "access/slowloris",
		breaks: "A header that arrives byte by byte ends the connection.",
		file:   "serve/access/listener/server.go",
		old:    `ReadHeaderTimeout: l.HeaderTime, `,
		new:    ``,
		test:   "TestSlowClients",
	},
	{
		name:   "access/kubeconfig-of-others",
		breaks: "A kubeconfig that larder did not write is not overwritten.",
		file:   "serve/access/kubeconfig/config.go",
		old: `	if len(others) > 0 {
`,
		new: `	if len(others) > 3 {
`,
		test: "TestWriteKeepsOtherKubeconfigs",
	},
	{
		name:   "access/all-resources-and-sealed-ones",
		breaks: "Rights to all resources do not cover sealed collections.",
		file:   "serve/source.go",
		old:    "withheld[d.Identity.GroupResource()] || d.confidential",
		new:    "withheld[d.Identity.GroupResource()]",
		test:   "TestAllResourcesExcludeSealed",
		dir:    "internal/cli/serving",
	},
	{
		name:   "access/files-of-others",
		breaks: "A kubeconfig that another user has placed in a directory of everybody is refused.",
		file:   "internal/base/file.go",
		old:    "in.Mode().Perm()&0o022 == 0",
		new:    "in.Mode().Perm()&0o022 != 0",
		test:   "TestKubeconfigOfAnotherUser",
		dir:    "serve/access/kubeconfig",
	},
	{
		name:   "access/socket-of-others",
		breaks: "The process behind a socket is trusted only if its user is root, the caller or the store's owner.",
		file:   "internal/source/server.go",
		old:    "!known || of != uid {",
		new:    "!known || of == -1 {",
		test:   "TestSocketOfAnotherUser",
	}, {
		name:   "access/watch-ends-with-its-request",
		breaks: "The connection of a watch has no deadlines.",
		file:   "serve/access/handler.go",
		old:    `_ = own.control.SetReadDeadline(time.Time{})`,
		new:    `_ = own.control`,
		test:   "TestDeadlines",
	},
	{
		name:   "access/account-with-a-colon",
		breaks: "A token's claims do not name a service account of another namespace.",
		file:   "serve/access/service_accounts.go",
		old:    "len(validation.ValidateServiceAccountName(k.ServiceAccount.Name, false)) > 0:",
		new:    "false:",
		test:   "TestServiceAccountsRefuse",
	},
	{
		name:   "access/algorithm-of-another-key",
		breaks: "A key verifies tokens of its own algorithm only.",
		file:   "serve/access/service_accounts.go",
		old:    `key.Algorithm != "" && key.Algorithm != header.Algorithm {`,
		new:    `false {`,
		test:   "TestServiceAccountsRefuse",
	},
	{
		name:   "access/network-of-many-addresses",
		breaks: "The refused tokens of an IPv6 network are counted together.",
		file:   "serve/access/limits.go",
		old:    "return connlimit.Client(at.Addr())",
		new:    "_ = connlimit.Client\n\treturn at.Addr()",
		test:   "TestTokensOfANetwork",
	},
	{
		name:   "access/claimed-by-the-client",
		breaks: "The status of a review that a client sends is no answer to it.",
		file:   "serve/access/reviews.go",
		old:    "	answer.Status = authorizationv1.SubjectAccessReviewStatus{}\n",
		new:    "",
		test:   "TestSelfSubjectAccessReview",
	},
}
