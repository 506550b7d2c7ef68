package facts

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/limiter"
)

const (
	// requestWait is how long a request may take, and schemaWait one for a schema, which has up to 1.6 MB: 1 KB a second.
	requestWait, schemaWait = 2 * time.Minute, 30 * time.Minute
	// discoveryFor is how long a server's groups are taken to be the same, and lackingFor how long if a group-version is
	// not among them, which the server may not have any more.
	discoveryFor, lackingFor = 7 * 24 * time.Hour, 24 * time.Hour
)

// Store is where documents are kept: a *store.Store, or Memory.
type Store interface {
	Documents
	PutDocument(ctx context.Context, name string, data []byte) error
	// DeleteDocument removes a document, if there is one of that name.
	DeleteDocument(ctx context.Context, name string) error
}

// Ask says what Refresh asks for.
type Ask struct {
	// Client is any REST client of the server.
	Client rest.Interface
	// Cluster is the id of the server's cluster, as entry.Attributes has it; empty if it is not known. Keys of another
	// cluster do not stay.
	Cluster string
	// Of are the group-versions that schemas are stored of. Schemas of others are removed.
	Of []schema.GroupVersion
	// Schemas asks for schemas. If it is not set, those that are stored stay as they are.
	Schemas bool
	// Hash returns the server's hash of a group-version's schema; an empty one if the server has none. If it is nil, the
	// server's index is asked for each time, which has about 10 KB. See requests.Schemas.
	Hash func(ctx context.Context, gv schema.GroupVersion) (string, error)
	// Unstored are schemas, by their hash, that could not be stored: there is no room, they are too large, or the link is
	// too slow. Refresh adds to it, and does not ask for them again. May be nil.
	Unstored map[schema.GroupVersion]string
}

// Refresh asks the server, and stores what has changed. What the server refuses stays as it is stored, and is no error
// if not everybody may read it (the keys). Stored keys that are damaged, or of another cluster, are removed. The error
// has all that went wrong: other facts may have been stored.
func Refresh(ctx context.Context, st Store, a Ask) error {
	r := &refresh{Ask: a, st: st}
	var errs []error
	for _, step := range []func(context.Context) error{r.forget, r.version, r.discovery, r.keys, r.schemas} {
		err := step(ctx)
		errs = append(errs, err)
		if err != nil && (ctx.Err() != nil || limiter.Unanswered(err)) { // so would the others be
			break
		}
	}
	return errors.Join(errs...)
}

// refresh is one call of Refresh.
type refresh struct {
	Ask
	st Store
	// upgraded: the server is another than it was, or has another version.
	upgraded bool
	encoder  *zstd.Encoder // nil until there is a schema to encode
}

// get returns the server's answer to a request for JSON.
func (r *refresh) get(ctx context.Context, path, accept string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	data, err := r.Client.Get().AbsPath(path).SetHeader("Accept", accept).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("the server's answer to GET %s is no JSON", path)
	}
	return data, nil
}

// forget removes keys of another cluster: this one's may be refused. Whatever else is about that one is replaced.
func (r *refresh) forget(ctx context.Context) error {
	stored, err := ReadKeys(ctx, r.st)
	if err == nil && (stored == nil || stored.Cluster == r.Cluster || stored.Cluster == "" || r.Cluster == "") {
		return nil
	}
	r.upgraded = true
	return r.st.DeleteDocument(ctx, keysDocument)
}

func (r *refresh) version(ctx context.Context) error {
	data, err := r.get(ctx, "/version", runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	now, err := ParseVersion(data)
	if err != nil {
		return err
	}
	stored, err := ReadVersion(ctx, r.st) // one that cannot be read is replaced
	if err == nil && stored != nil && *stored == *now {
		return nil
	}
	r.upgraded = true
	return r.st.PutDocument(ctx, versionDocument, data)
}

func (r *refresh) discovery(ctx context.Context) error {
	stored, err := ReadDiscovery(ctx, r.st)
	atMost := discoveryFor
	if slices.ContainsFunc(r.Of, func(gv schema.GroupVersion) bool { return !stored.Has(gv) }) {
		atMost = lackingFor
	}
	if err == nil && stored != nil && !r.upgraded && time.Since(stored.Fetched).Abs() < atMost {
		return nil
	}
	d, err := FetchDiscovery(ctx, r.Client, stored)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return fmt.Errorf("the server's resources: %w", err)
	}
	return d.Put(ctx, r.st)
}

// keys reads the keys if the server lets this client: by default service accounts may, and administrators.
func (r *refresh) keys(ctx context.Context) error {
	const discoveryPath, keysPath = "/.well-known/openid-configuration", "/openid/v1/jwks"
	about, err := r.get(ctx, discoveryPath, runtime.ContentTypeJSON)
	if refused(err) {
		return nil
	}
	var k Keys
	if err == nil {
		err = json.Unmarshal(about, &k)
	}
	if err == nil && k.Issuer == "" {
		err = fmt.Errorf("the server's answer to GET %s has no issuer", discoveryPath)
	}
	if err != nil {
		return err
	}
	k.JWKS, err = r.get(ctx, keysPath, "application/jwk-set+json,"+runtime.ContentTypeJSON)
	if refused(err) {
		return nil
	}
	if err != nil {
		return err
	}
	k.Cluster, k.Fetched = r.Cluster, time.Now().UTC().Truncate(time.Second)
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return r.st.PutDocument(ctx, keysDocument, data)
}

// refused reports whether the server does not let this client read something, or does not have it.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// schemas reads those schemas that have changed, and removes those of group-versions that are not asked for.
func (r *refresh) schemas(ctx context.Context) error {
	stored, err := readHashes(ctx, r.st) // what cannot be read is read from the server again
	if stored == nil {
		return err
	}
	var errs []error
	for gv := range stored {
		if !slices.Contains(r.Of, gv) {
			errs = append(errs, r.st.DeleteDocument(ctx, schemaPrefix+pathOf(gv)))
		}
	}
	if !r.Schemas {
		return errors.Join(errs...)
	}
	changed, err := r.changed(ctx, stored)
	if len(changed) > 0 {
		err = errors.Join(err, r.fetch(ctx, changed, stored))
	}
	return errors.Join(append(errs, err)...)
}

// changed returns the group-versions whose schema is not the stored one any more.
func (r *refresh) changed(
	ctx context.Context, stored map[schema.GroupVersion]string,
) (all []schema.GroupVersion, err error) {
	for _, gv := range r.Of {
		hash := ""
		if r.Hash != nil {
			if hash, err = r.Hash(ctx, gv); err != nil {
				return all, err
			}
			if hash == "" {
				continue
			}
		}
		if hash == "" || hash != stored[gv] && hash != r.Unstored[gv] {
			all = append(all, gv)
		}
	}
	return all, nil
}

// fetch reads schemas by the server's index.
func (r *refresh) fetch(ctx context.Context, all []schema.GroupVersion, stored map[schema.GroupVersion]string) error {
	listing, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	index, err := openapi.NewClientWithContext(r.Client).PathsWithContext(listing)
	if err != nil {
		return fmt.Errorf("the server's index of OpenAPI schemas: %w", err)
	}
	var errs []error
	for _, gv := range all {
		at := index[pathOf(gv)]
		if at == nil {
			continue
		}
		u, err := url.Parse(at.ServerRelativeURL())
		if err != nil {
			errs = append(errs, fmt.Errorf("the OpenAPI schema of %s has no valid URL: %w", gv, err))
			continue
		}
		// If the server tells no hash, it is asked each time.
		if hash := u.Query().Get("hash"); hash == "" || hash != stored[gv] && hash != r.Unstored[gv] {
			err = r.fetchOne(ctx, gv, at, hash)
		}
		errs = append(errs, err)
		if err != nil && (ctx.Err() != nil || limiter.Unanswered(err) && !apierrors.IsServiceUnavailable(err)) {
			break // one whose own server is down is answered 503
		}
	}
	return errors.Join(errs...)
}

func (r *refresh) fetchOne(
	ctx context.Context, gv schema.GroupVersion, at openapi.GroupVersionWithContext, hash string,
) error {
	fetching, cancel := context.WithTimeout(ctx, schemaWait)
	defer cancel()
	data, err := at.SchemaWithContext(fetching, runtime.ContentTypeJSON)
	tooSlow := fetching.Err() != nil
	came := err == nil
	if came {
		err = r.putSchema(ctx, gv, hash, data)
	}
	if err != nil && ctx.Err() == nil && (came || tooSlow) && r.Unstored != nil {
		r.Unstored[gv] = hash
	}
	if err != nil {
		return fmt.Errorf("the OpenAPI schema of %s: %w", gv, err)
	}
	return nil
}

// putSchema stores a schema.
func (r *refresh) putSchema(ctx context.Context, gv schema.GroupVersion, hash string, data []byte) error {
	if !json.Valid(data) {
		return errors.New("it is no JSON")
	}
	if r.encoder == nil {
		var err error
		if r.encoder, err = newSchemaEncoder(); err != nil {
			return err
		}
	}
	document := encodeSchema(r.encoder, cmp.Or(hash, fmt.Sprintf("%X", sha512.Sum512(data))), data)
	return r.st.PutDocument(ctx, schemaPrefix+pathOf(gv), document)
}
