// Package page is a page for people over package serve: the state of each collection, its objects, what has changed,
// and two snapshots side by side. It is a few files of HTML, CSS and JavaScript that need nothing from elsewhere.
//
//	data := page.New(page.Options{Status: status})
//	h, err := serve.New(source, serve.Options{Page: data, Authorizer: rights})
//	if err != nil { … }
//	http.Serve(listener, page.Files(access.NewHandler(h, access.HandlerOptions{Authenticator: users})))
//
// # Who sees what
//
// The files (Files) have no data, and everybody who can connect gets them. All data come from the served Kubernetes API
// and from what New answers below /larder/. The script asks for both with a bearer token that it has from the fragment
// of the page's address (#token=…), which no server is sent and no log has, or from a form. Where nobody has to sign in
// it asks without one. It keeps the token for the tab, in sessionStorage; there are no cookies. So a user of the page
// sees what the same user sees with kubectl, and, who may get the paths below /larder/ (nonResourceURLs of RBAC), the
// state, the changes and the comparison. Who may not is shown the kinds that discovery has.
//
// Objects may say anything. Their texts become text nodes, never HTML, and the Content-Security-Policy allows no script
// but the page's own, no request but to the server that the page is from, and no sink of strings that are run
// (require-trusted-types-for).
//
// # Concurrency and shutdown
//
// Handlers may be used concurrently. They start nothing that outlives a request. The functions in Options are called
// for each request, concurrently, with its context, but for Compare and Sides, which are called one at a time.
package page
