package facts

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

type Documents interface {
	// Documents returns the sorted names of all documents.
	Documents(ctx context.Context) ([]string, error)
	// Document returns the content of a document; nil if no document has that name.
	Document(ctx context.Context, name string) ([]byte, error)
}

// Server has the known facts about an API server. A zero field is unknown.
type Server struct {
	Version   *version.Info
	Discovery *Discovery
	// Schemas has the group-versions whose OpenAPI document is stored, with the server's hash of the document. See
	// OpenAPI.
	Schemas map[schema.GroupVersion]string
	Keys    *Keys
}

// Read returns the facts in the documents. If some documents cannot be read, it returns an error together with the
// facts in the readable documents.
func Read(ctx context.Context, d Documents) (s Server, err error) {
	var errs [4]error
	s.Version, errs[0] = ReadVersion(ctx, d)
	s.Discovery, errs[1] = ReadDiscovery(ctx, d)
	s.Keys, errs[2] = ReadKeys(ctx, d)
	s.Schemas, errs[3] = readHashes(ctx, d)
	return s, errors.Join(errs[:]...)
}

func readHashes(ctx context.Context, d Documents) (map[schema.GroupVersion]string, error) {
	names, err := d.Documents(ctx)
	if err != nil {
		return nil, err
	}
	hashes := map[schema.GroupVersion]string{}
	var errs []error
	for _, name := range names {
		gv, ok := groupVersionOf(name)
		if !ok {
			continue
		}
		hash, _, err := readSchema(ctx, d, gv)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		hashes[gv] = hash
	}
	return hashes, errors.Join(errs...)
}

// Carried returns the names of the documents that a snapshot contains if it has collections of the given
// group-versions: the schemas of these group-versions, and all facts that are no schemas. If redacted is true, the keys
// are excluded, because their issuer identifies the cluster.
func Carried(ctx context.Context, d Documents, of []schema.GroupVersion, redacted bool) ([]string, error) {
	names, err := d.Documents(ctx)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		switch name {
		case versionDocument, discoveryDocument:
			return false
		case keysDocument:
			return redacted
		}
		gv, ok := groupVersionOf(name)
		return !ok || !slices.Contains(of, gv)
	}), err
}

// Carry returns the contents of a document for a snapshot with collections of the given group-versions. It reduces
// discovery to the groups of these versions. It returns nil if the document no longer exists.
func Carry(ctx context.Context, d Documents, name string, of []schema.GroupVersion) ([]byte, error) {
	data, err := d.Document(ctx, name)
	if err != nil || data == nil || name != discoveryDocument {
		return data, err
	}
	all, err := decodeDiscovery(data)
	if err != nil {
		return nil, err
	}
	return all.of(of).encode()
}

const schemaPrefix = "openapi/"

// pathOf returns the path of a group-version in the index of OpenAPI schemas, such as api/v1 and apis/apps/v1.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

func groupVersionOf(name string) (gv schema.GroupVersion, ok bool) {
	path, ok := strings.CutPrefix(name, schemaPrefix)
	if !ok {
		return gv, false
	}
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		gv.Version = parts[1]
	case len(parts) == 3 && parts[0] == "apis":
		gv.Group, gv.Version = parts[1], parts[2]
	}
	return gv, gv.Version != "" && name == schemaPrefix+pathOf(gv)
}
