// Package facts stores facts about an API server besides its objects: its version, its groups and resources, their
// OpenAPI schemas, and the keys that sign its service accounts' tokens.
//
// Read returns all facts except the contents of the schemas, which OpenAPI returns. Read and OpenAPI take a
// *store.Store or a *snapshot.File. Refresh requests facts from the server, and stores changed ones. Carried and Carry
// return the facts that a snapshot of some collections includes.
//
// Each fact is a document, see store.Store.PutDocument:
//
//	server-version        the server's answer to /version, or text such as v1.36.3 from programs without the answer
//	discovery             JSON of Discovery; informer/mapper writes it too
//	openapi/api/v1        the OpenAPI v3 document of a group-version, named by the path of the server's index:
//	openapi/apis/apps/v1  the server's hash, a line feed, and one zstd frame with the JSON
//	service-account-keys  JSON of Keys
//
// A missing document is an unknown fact, and no error. If a document cannot be read, Read returns an error together
// with all other facts. Documents are never sealed: the server can send them again, and they contain no objects.
//
// # Refreshing
//
// Refresh makes a request if its answer may have changed. The version and the keys, less than 2 KB, are requested each
// time. Discovery is requested if the version has changed, or the stored document is a week old, or a day old and lacks
// a group-version. A schema is requested if its hash differs from the stored one; servers do not compress schemas. If
// the server refuses a request, the stored fact is kept. The package starts no goroutines: the caller decides when to
// refresh.
package facts
