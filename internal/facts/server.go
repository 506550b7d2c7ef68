package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// Documents reads documents by name. It is a *store.Store or a *snapshot.File.
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

// versionDocument is the name of the stored document with the server's version. It equals store.DocumentServerVersion.
const versionDocument = "server-version"

// ReadVersion returns the stored version of the server; nil if none is stored.
func ReadVersion(ctx context.Context, d Documents) (*version.Info, error) {
	data, err := d.Document(ctx, versionDocument)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return ParseVersion(data)
}

// ParseVersion parses the content of the document with the server's version.
func ParseVersion(data []byte) (*version.Info, error) {
	text := strings.TrimSpace(string(data))
	if !strings.HasPrefix(text, "{") {
		return VersionOf(text), nil
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("document %q is not what a server says of its version: %w", versionDocument, err)
	}
	return &info, nil
}

// VersionOf returns a version.Info with the fields that can be derived from a version such as v1.36.3.
func VersionOf(gitVersion string) *version.Info {
	info := &version.Info{GitVersion: gitVersion}
	if v, err := utilversion.ParseGeneric(gitVersion); err == nil {
		info.Major, info.Minor = strconv.Itoa(int(v.Major())), strconv.Itoa(int(v.Minor()))
	}
	return info
}

// maxSchema is the maximum size in bytes of a schema that is read; Kubernetes' largest schema has 1.6 MB. A schema of n
// compressed bytes may decompress to at most leastSchema + maxSchemaRatio*n bytes. Servers' schemas compress to a tenth
// or less, and a document of some hundred bytes must not cost megabytes for each request.
const (
	maxSchema      = 32 << 20
	leastSchema    = 1 << 20
	maxSchemaRatio = 64
)

// OpenAPI returns the OpenAPI v3 document of a group-version, in JSON and byte for byte as the server sent it, and the
// server's hash of it. The document is nil if it is not stored. hold may be nil. Otherwise OpenAPI calls hold with the
// size of the document before decompressing it, and returns the error of hold.
func OpenAPI(ctx context.Context, d Documents, gv schema.GroupVersion, hold func(bytes int) error) (
	document []byte, hash string, err error,
) {
	hash, compressed, err := readSchema(ctx, d, gv)
	if err != nil || compressed == nil {
		return nil, "", err
	}
	size := sizeOfSchema(compressed)
	if hold != nil {
		if err := hold(size); err != nil {
			return nil, "", err
		}
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(uint64(max(size, leastSchema))))
	if err == nil {
		defer r.Close()
		document, err = r.DecodeAll(compressed, nil)
	}
	if err != nil {
		return nil, "", fmt.Errorf("document %q cannot be decompressed: %w", schemaPrefix+pathOf(gv), err)
	}
	return document, hash, nil
}

// sizeOfSchema returns the decompressed size that the header of a compressed schema claims. It returns the maximum size
// if the header has no size or a larger one.
func sizeOfSchema(compressed []byte) int {
	var h zstd.Header
	most := min(maxSchema, leastSchema+maxSchemaRatio*len(compressed))
	if h.Decode(compressed) != nil || !h.HasFCS || h.FrameContentSize > uint64(most) {
		return most
	}
	return int(h.FrameContentSize)
}

// readSchema returns the hash of a stored schema, and the schema as a zstd frame, which is nil if no schema is stored.
func readSchema(ctx context.Context, d Documents, gv schema.GroupVersion) (hash string, compressed []byte, err error) {
	data, err := d.Document(ctx, schemaPrefix+pathOf(gv))
	if err != nil || data == nil {
		return "", nil, err
	}
	before, compressed, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return "", nil, fmt.Errorf("document %q has no hash", schemaPrefix+pathOf(gv))
	}
	return string(before), compressed, nil
}

// encoderWindow is the window size, in bytes, of the zstd encoder for schemas. A larger window makes schemas hardly
// smaller, but takes most of the memory of a small mirror. The same holds for zstd's best compression level, which
// makes schemas 5% smaller.
const encoderWindow = 512 << 10

func newSchemaEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(encoderWindow))
}

func encodeSchema(w *zstd.Encoder, hash string, document []byte) []byte {
	return w.EncodeAll(document, append([]byte(hash), '\n'))
}

const keysDocument = "service-account-keys"

// IsKeys reports whether the document with this name holds Keys. An attacker who writes Keys can make tokens for any
// service account. So Keys may be used only if they were fetched from the API server, or the file's author is trusted.
func IsKeys(document string) bool { return document == keysDocument }

// Keys are the public keys with which a cluster signs the tokens of its service accounts.
type Keys struct {
	// Issuer is the iss claim of the tokens. It is from the server's /.well-known/openid-configuration.
	Issuer string `json:"issuer"`
	// JWKS is the server's answer to /openid/v1/jwks, a JSON Web Key Set.
	JWKS json.RawMessage `json:"jwks"`
	// Cluster is the id of the server's cluster, as in entry.Attributes; empty if unknown. A token of this cluster must
	// not give access to objects of another.
	Cluster string `json:"cluster,omitempty"`
	// Fetched is when the keys were last requested.
	Fetched time.Time `json:"fetched"`
}

// ReadKeys returns the stored keys of the cluster; nil if none are stored.
func ReadKeys(ctx context.Context, d Documents) (*Keys, error) {
	data, err := d.Document(ctx, keysDocument)
	if err != nil || data == nil {
		return nil, err
	}
	var k Keys
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("document %q cannot be read: %w", keysDocument, err)
	}
	return &k, nil
}

// Memory is a Store that holds the contents of documents, by name, in memory. Create it with make.
type Memory map[string][]byte

var _ Store = Memory{}

// Documents implements Documents: it returns the names, sorted.
func (m Memory) Documents(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(m)), nil }

// Document implements Documents.
func (m Memory) Document(_ context.Context, name string) ([]byte, error) { return m[name], nil }

// PutDocument implements Store.
func (m Memory) PutDocument(_ context.Context, name string, data []byte) error {
	m[name] = data
	return nil
}

// DeleteDocument implements Store.
func (m Memory) DeleteDocument(_ context.Context, name string) error {
	delete(m, name)
	return nil
}
