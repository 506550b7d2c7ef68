package store

// Collection is one collection of a Store. It implements Interface.
type Collection struct{ Interface }

// View reads one collection of a Store as unstructured objects.
type View struct{ Interface }
