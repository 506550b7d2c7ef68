package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/larder-dev/larder/entry"
)

const progressEvery = 256

type saving struct {
	o        SaveOptions
	src      Source
	of       Header // Header of the source snapshot; zero if src is not a snapshot or store
	selected Source
	saved    Saved
	progress
}

func save(ctx context.Context, src Source, w io.Writer, o SaveOptions) (Saved, error) {
	j := &saving{o: o, src: src, progress: progress{notify: o.Progress}}
	j.saved.LeftOut = slices.Clone(o.Header.LeftOut)
	if d, ok := src.(describer); ok {
		j.of = d.describe(ctx)
		// If the filter names resources, entries in LeftOut may be about resources that it excludes.
		if len(o.Filter.Resources) == 0 {
			j.saved.LeftOut = append(j.saved.LeftOut, j.of.LeftOut...)
		}
	}
	var err error
	if j.selected, err = Select(src, o.SelectOptions); err == nil {
		err = j.run(ctx, w)
	}
	if err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	return j.saved, nil
}

func (j *saving) run(ctx context.Context, w io.Writer) error {
	all, err := j.selected.Collections(ctx)
	if err != nil {
		return err
	}
	keep := all[:0]
	for _, c := range all {
		if why := j.leavesOut(c); why != "" {
			j.saved.LeftOut = append(j.saved.LeftOut, c.Identity.String()+": "+why)
			continue
		}
		keep = append(keep, c)
		j.now.TotalObjects += c.Objects
	}
	counted := &countingWriter{w: w}
	out, err := newWriter(counted, j.header(keep), writerOptions{Recipients: j.o.Recipients, Key: j.o.SigningKey})
	if err != nil {
		return err
	}
	j.report()
	for _, c := range keep {
		if err := j.collection(ctx, out, c); err != nil {
			return err
		}
	}
	if err := j.documents(ctx, out, keep); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	j.saved.Objects, j.saved.Bytes, j.saved.Size = j.now.Objects, j.now.Bytes, counted.n
	return nil
}

// header completes empty fields of SaveOptions.Header from the source and its collections.
func (j *saving) header(all []Collection) Header {
	h := j.o.Header
	h.LeftOut, h.Filter, h.Redaction = j.saved.LeftOut, j.of.Filter, j.of.Redaction
	if !j.o.Filter.Empty() {
		h.Filter = &j.o.Filter
	}
	if !j.o.Redaction.Empty() {
		h.Redaction = &j.o.Redaction
	}
	h.Larder = cmp.Or(h.Larder, j.of.Larder)
	h.ServerVersion = cmp.Or(h.ServerVersion, j.of.ServerVersion)
	h.ClusterID = cmp.Or(h.ClusterID, j.of.ClusterID, clusterOf(all))
	for _, at := range []time.Time{j.of.TakenAt, time.Now().UTC().Round(time.Second)} {
		if h.TakenAt.IsZero() {
			h.TakenAt = at
		}
	}
	return h
}

// clusterOf returns the cluster id that all collections with a known id have in common; "" if they differ.
func clusterOf(all []Collection) (id string) {
	for _, c := range all {
		switch one := c.Attributes.ClusterID; {
		case one == "" || one == id:
		case id != "":
			return ""
		default:
			id = one
		}
	}
	return id
}

// leavesOut returns the reason why a collection is not saved; "" if it is.
func (j *saving) leavesOut(c Collection) string {
	if len(j.o.Recipients) > 0 || j.o.Secrets {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the snapshot is not encrypted, and they were not asked for in plain text"
	}
	return ""
}

func (j *saving) collection(ctx context.Context, out *writer, c Collection) error {
	if err := out.Begin(c.Identity); err != nil {
		return err
	}
	j.now.Collection = c.Identity
	err := j.selected.Records(ctx, c.Identity, func(r entry.Entry) error {
		j.done(r)
		return out.Add(r)
	})
	if err != nil {
		return err
	}
	// A live server's resourceVersion is known only after the collection's records were read.
	if live, ok := j.src.(*liveSource); ok {
		c = live.withState(c)
	}
	if c, err = out.End(c); err != nil {
		return err
	}
	j.saved.Collections = append(j.saved.Collections, c)
	j.report()
	return nil
}

type progress struct {
	notify func(Progress)
	now    Progress
}

func (p *progress) done(r entry.Entry) {
	p.now.Objects++
	p.now.Bytes += int64(len(r.Payload))
	if p.now.Objects%progressEvery == 0 {
		p.report()
	}
}

func (p *progress) report() {
	if p.notify != nil {
		p.notify(p.now)
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
