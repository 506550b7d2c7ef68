// Package facts is what a store or a snapshot knows of its API server besides objects: its version, the groups and
// resources that it has, their OpenAPI schemas, and the keys that sign its service accounts' tokens.
//
// Read reads all but the contents of the schemas, which OpenAPI does; both take a *store.Store or a *snapshot.File.
// Refresh asks the server, and stores what has changed. Carried and Carry are what a snapshot of some collections takes
// along.
//
// Each fact is a document, see store.Store.PutDocument:
//
//	server-version        the server's answer to /version; or, of a program that knows no more, text such as v1.36.3
//	discovery             JSON of Discovery; informer/mapper keeps it, too
//	openapi/api/v1        the OpenAPI v3 document of a group-version, named by the path of the server's index:
//	openapi/apis/apps/v1  the server's hash, a line feed, and one zstd frame with the JSON
//	service-account-keys  JSON of Keys
//
// A document that is not there is a fact that is not known, and no error. One that cannot be read is an error, which
// comes with all that could be read. Everything here can be had anew from the server, nothing of it is an object's
// contents, and so it is never sealed.
//
// # Refreshing
//
// Refresh makes a request where an answer may have changed. The version and the keys are asked for each time, less than
// 2 KB. Discovery is asked for if the version has changed, or it is a week old; or a day, if a group-version is not in
// it. A schema is asked for if its hash is another one than the stored one's; servers do not compress schemas. Whatever
// the server refuses stays as it was. The caller says when: the package starts no goroutines.
package facts
