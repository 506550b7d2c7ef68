// Package page is a web page on top of package serve. It shows the state of each collection, its objects, recent
// changes, and two snapshots side by side. It consists of a few files of HTML, CSS and JavaScript, without external
// dependencies.
//
//	data := page.New(page.Options{Status: status})
//	h, err := serve.New(source, serve.Options{Page: data, Authorizer: rights})
//	if err != nil { … }
//	http.Serve(listener, page.Files(access.NewHandler(h, access.HandlerOptions{Authenticator: users})))
//
// # Authentication
//
// The static files (Files) contain no data and are public. All data come from the served Kubernetes API and from New's
// handler below /larder/. The script sends a bearer token to both. It takes the token from a form, or from the fragment
// of the page's address (#token=…), which is never sent to a server or logged. Without authentication it sends none. It
// keeps the token for the tab, in sessionStorage, and uses no cookies. So a user of the page sees the same objects as
// with kubectl. The state, the changes and the comparison need the right to get the paths below /larder/
// (nonResourceURLs in RBAC). Without that right the page lists the kinds from discovery.
//
// Texts of objects are untrusted. They become text nodes, never HTML. The Content-Security-Policy allows only the
// page's own scripts and requests to its own server, and forbids strings as scripts (require-trusted-types-for).
//
// # Concurrency and shutdown
//
// Handlers are safe for concurrent use. They start nothing that outlives a request. Handlers call the functions in
// Options with the request's context. Calls of Status may be concurrent. Calls of Changes are made one at a time, and
// so are calls of Compare and Sides.
package page
