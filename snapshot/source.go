package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

// Source provides collections: a File, a store (StoreSource), the result of Select. A save also copies the documents of
// a Source with the methods Documents and Document of a File.
type Source interface {
	// Collections returns the collections, in any order. Resource.Namespaced must agree with the keys if the collection
	// has Objects. Without objects it may be wrong: the program that stored the collection may not have known the scope.
	Collections(ctx context.Context) ([]Collection, error)
	// Records calls fn with the records of a collection in the byte order of their keys. A payload is valid until fn
	// returns. Records returns an error of fn, and ErrNoCollection if there is no such collection.
	Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error
}

type describer interface {
	describe(ctx context.Context) Header
}

func (f *File) describe(context.Context) Header { return f.manifest.Header }

// StoreSource returns the committed collections of a store as a Source. In a store that is open for reading only, such
// as the copy of SaveStore, each collection is exactly at its ResourceVersion. In a store that is written meanwhile,
// only each page of records is one state: a collection may have newer objects than its ResourceVersion, and lack
// others. A watch from the ResourceVersion delivers them. No transaction is open between pages.
func StoreSource(st *store.Store) Source { return storeSource{st} }

type storeSource struct{ st *store.Store }

func (s storeSource) Collections(ctx context.Context) ([]Collection, error) {
	infos, err := s.st.Collections(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Collection, len(infos))
	for i, info := range infos {
		all[i] = Collection{
			Identity: info.Identity, Attributes: info.Attributes, Resource: info.Resource, ResourceVersion: info.ResourceVersion,
			Complete: info.Complete, MustRelist: mustRelist(info), LastContact: info.LastContact, Objects: info.Objects,
			Sealed: s.st.Sealed(info),
		}
	}
	slices.SortFunc(all, func(a, b Collection) int { return strings.Compare(a.Identity.String(), b.Identity.String()) })
	return all, nil
}

// RelistLeftOut is the MustRelist of a copied collection whose store left out objects, as after an encoding error.
const RelistLeftOut = "objects were left out of the store"

// mustRelist returns the reason why a copy of the collection cannot be resumed: a copy lacks Info.LeftOut.
func mustRelist(info entry.Info) string {
	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
		return RelistLeftOut
	}
	return info.MustRelist
}

func (s storeSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	err := s.st.Records(ctx, id, "", fn)
	if errors.Is(err, store.ErrNoCollection) {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	return err
}

func (s storeSource) describe(ctx context.Context) (h Header) {
	// The server's version is optional: if it cannot be read, it stays empty.
	if version, err := facts.ReadVersion(ctx, s); err == nil && version != nil {
		h.ServerVersion = version.GitVersion
	}
	return h
}

// document locates a document in the file: a fact about the API server, such as its OpenAPI schemas.
type document struct {
	begin        int64
	size, stored int
	digest       string // SHA-256 of the document's bytes in the file
}

// Documents returns the names of the documents, sorted.
func (f *File) Documents(context.Context) ([]string, error) {
	names := slices.Clone(f.manifest.Documents)
	slices.Sort(names)
	return names, nil
}

// Document returns a document, or nil if the snapshot has no document of this name. Damage is a DamageError.
func (f *File) Document(ctx context.Context, name string) ([]byte, error) {
	d, ok := f.documents[name]
	if !ok {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	damage := func(reason string) error {
		return f.damage(d.begin, -1, fmt.Sprintf("the document %q %s", name, reason))
	}
	stored := make([]byte, d.stored)
	if err := f.read(stored, d.begin, -1); err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(stored); string(digest[:]) != d.digest {
		return nil, damage("is not what was written (SHA-256)")
	}
	if d.stored == d.size {
		return stored, nil
	}
	buf := f.buffers.Get().(*buffer)
	defer f.buffers.Put(buf)
	if err := buf.prepare(); err != nil {
		return nil, err
	}
	data, err := buf.decompressor.Decompress(stored, d.size)
	if err != nil {
		return nil, damage("cannot be decompressed: " + err.Error())
	}
	return bytes.Clone(data), nil
}

func (s storeSource) Documents(ctx context.Context) ([]string, error) { return s.st.Documents(ctx) }

func (s storeSource) Document(ctx context.Context, name string) ([]byte, error) {
	return s.st.Document(ctx, name)
}

// Documents implements facts.Documents with the documents in SaveOptions.
func (s *liveSource) Documents(ctx context.Context) ([]string, error) {
	return s.documents.Documents(ctx)
}

func (s *liveSource) Document(ctx context.Context, name string) ([]byte, error) {
	return s.documents.Document(ctx, name)
}

// documents copies the source's documents about the API server, as far as they describe the saved collections. An
// unreadable document of a store is added to LeftOut. A damaged document of a source snapshot is an error.
func (j *saving) documents(ctx context.Context, out *writer, all []Collection) error {
	src, ok := j.src.(facts.Documents)
	if !ok {
		return nil
	}
	var of []schema.GroupVersion
	for _, c := range all {
		if gv := c.Identity.GroupVersion(); !slices.Contains(of, gv) {
			of = append(of, gv)
		}
	}
	names, err := facts.Carried(ctx, src, of, j.o.redacts(j.of))
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := facts.Carry(ctx, src, name, of)
		switch damaged := new(DamageError); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &damaged):
			return err
		case err != nil:
			j.saved.LeftOut = append(j.saved.LeftOut, fmt.Sprintf(leftOutDocument+"%s: %v", name, err))
			out.catalog.Header.LeftOut, err = j.saved.LeftOut, nil
		case data != nil:
			err = out.Document(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// redacts reports whether this save redacts values, or an earlier save of the source snapshot did.
func (o SaveOptions) redacts(of Header) bool { return !o.Redaction.Empty() || of.Redaction != nil }
