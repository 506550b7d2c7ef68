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
	// requestWait limits the time of each request, and schemaWait the time of a request for a schema. Schemas have up to
	// 1.6 MB, so schemaWait allows for a connection with 1 KB a second.
	requestWait, schemaWait = 2 * time.Minute, 30 * time.Minute
	// discoveryFor is the age at which stored discovery is requested again although the server's version is the same.
	// missingFor is that age for a discovery that lacks a group-version of Ask.Of, which the server may have removed.
	discoveryFor, missingFor = 7 * 24 * time.Hour, 24 * time.Hour
)

// Store reads and writes documents by name. It is a *store.Store, or Memory.
type Store interface {
	Documents
	PutDocument(ctx context.Context, name string, data []byte) error
	DeleteDocument(ctx context.Context, name string) error
}

// Ask says which facts Refresh requests.
type Ask struct {
	Client rest.Interface
	// Cluster is the id of the server's cluster, as in entry.Attributes; empty if unknown. Stored keys of another
	// cluster are deleted.
	Cluster string
	// Of holds the group-versions whose schemas are to be stored. Stored schemas of other group-versions are removed.
	Of []schema.GroupVersion
	// Schemas requests schemas. If it is false, stored schemas of Of are kept unchanged.
	Schemas bool
	// Hash returns the server's hash of a group-version's schema; empty if the server has none. If Hash is nil, each
	// Refresh requests the server's index of schemas, of about 10 KB. See requests.Schemas.
	Hash func(ctx context.Context, gv schema.GroupVersion) (string, error)
	// Unstored holds the hashes of schemas that could not be stored, because the disk is full, they are too large, or the
	// connection is too slow. Refresh adds to the map, and does not request these schemas again. Unstored may be nil.
	Unstored map[schema.GroupVersion]string
}

// Refresh requests facts from the server, and stores them if they have changed. If the server refuses a request, the
// stored fact stays unchanged. Refused keys are no error, since not every user may read them. Stored keys that are
// damaged, or of another cluster, are removed. The error joins all failures: other facts may have been stored.
func Refresh(ctx context.Context, st Store, a Ask) error {
	r := &refresh{Ask: a, st: st}
	var errs []error
	for _, step := range []func(context.Context) error{r.forget, r.version, r.discovery, r.keys, r.schemas} {
		err := step(ctx)
		errs = append(errs, err)
		if err != nil && (ctx.Err() != nil || limiter.Unanswered(err)) {
			// The server does not answer or ctx has ended, so the other requests would fail, too.
			break
		}
	}
	return errors.Join(errs...)
}

type refresh struct {
	Ask
	st Store
	// upgraded says that the server is of another cluster, or of another version, than the stored facts.
	upgraded bool
	encoder  *zstd.Encoder // encoder compresses schemas; nil until the first schema is stored
}

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

// forget removes the stored keys if they are of another cluster, because the new cluster may refuse to return its keys.
// The server's answers replace the other facts.
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
	stored, err := ReadVersion(ctx, r.st) // an unreadable version counts as missing and is replaced
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
		atMost = missingFor
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

// keys requests and stores the keys that sign the tokens of service accounts. A refusal is no error: by default only
// service accounts and administrators may read the keys.
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

func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// schemas requests and stores changed schemas. It removes stored schemas of group-versions that are not in Of.
func (r *refresh) schemas(ctx context.Context) error {
	stored, err := readHashes(ctx, r.st)
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

// changed returns the group-versions in Of whose schema may differ from the stored schema. If Ask.Hash is nil, it
// returns all of them.
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
		// A schema is requested by each Refresh if the server's index of schemas has no hash of the schema.
		if hash := u.Query().Get("hash"); hash == "" || hash != stored[gv] && hash != r.Unstored[gv] {
			err = r.fetchOne(ctx, gv, at, hash)
		}
		errs = append(errs, err)
		if err != nil && (ctx.Err() != nil || limiter.Unanswered(err) && !apierrors.IsServiceUnavailable(err)) {
			break // a 503 does not end the loop: only the aggregated API server of this group-version is down
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
