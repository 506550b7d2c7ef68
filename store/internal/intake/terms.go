package intake

import (
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// MoreTerms returns the terms of each write, with those of the added functions; deletes have none. It reuses terms from
// known, the result of an earlier call. failed is called for each object that a function fails for, which that function
// leaves out.
func (in *Intake) MoreTerms(
	writes []*memtable.Write, added *index.Set, known map[*memtable.Write]map[string][]string,
	failed func(key string, err error),
) map[*memtable.Write]map[string][]string {
	terms := map[*memtable.Write]map[string][]string{}
	for _, x := range writes {
		have, ok := known[x]
		switch {
		case x.Del:
		case ok:
			terms[x] = have
		default:
			terms[x] = in.addedTerms(added, x, func(err error) { failed(x.Key, err) })
		}
	}
	return terms
}

// addedTerms decodes the payload for the added functions, because handlers have been given x.Obj and may have changed
// it.
func (in *Intake) addedTerms(added *index.Set, x *memtable.Write, failed func(error)) map[string][]string {
	var terms map[string][]string
	obj, err := in.Back.Encoder(nil).Decode(x)
	if err != nil {
		failed(err)
	} else {
		terms = added.Compute(added.Names(), x.Key, obj, failed)
	}
	return index.Replace(x.Terms, added.Names(), terms)
}
