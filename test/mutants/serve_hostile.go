package main

var serveHostileMutants = []mutant{
	{
		name:   "connlimit/no-bound-per-address",
		breaks: "Strangers are bounded per address.",
		file:   "internal/connlimit/limiter.go",
		old:    `own != nil && own.Len() >= l.o.StrangersPerAddress`,
		new:    `own != nil && own.Len() >= l.o.Strangers`,
		test:   "TestStrangersOfOthers",
		dir:    "serve/access/listener",
	},
	{
		name:   "connlimit/once-known-always-known",
		breaks: "A connection whose credentials are refused later is a stranger again.",
		file:   "serve/access/handler.go",
		old:    `	connlimit.Authenticated(ctx, own.user.Username != "")`,
		new: `	if own.user.Username != "" {
		connlimit.Authenticated(ctx, true)
	}`,
		test: "TestStrangersPerAddress",
		dir:  "serve/access/listener",
	},
	{
		name:   "listener/body-on-get",
		breaks: "A GET with a body is refused before any handler.",
		file:   "serve/access/listener/server.go",
		old:    `Handler: noBodies(h),`,
		new:    `Handler: h,`,
		test:   "TestNoBodyOnGET",
	},
	{
		name:   "access/one-user-takes-all",
		breaks: "One user's requests leave half of the places to others.",
		file:   "serve/access/limits.go",
		old:    `c.users[user].requests >= c.limits.RequestsPerUser`,
		new:    `c.users[user].requests >= c.limits.Requests`,
		test:   "TestRequestsPerUser",
	},
	{
		name:   "endpoint/keep-alive",
		breaks: "A connection to --listen ends with its answer.",
		file:   "internal/endpoint/server.go",
		old:    `SetKeepAlivesEnabled(false)`,
		new:    `SetKeepAlivesEnabled(true)`,
		test:   "TestConnections",
	},
}
