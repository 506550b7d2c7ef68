// Package columns says which columns a table of a resource has, and computes an object's row, as a Kubernetes API
// server does when kubectl asks it for a table. It needs no server: what it knows of Kubernetes' own resources is in
// this package (one file per family), and that of custom resources comes with them as their additionalPrinterColumns.
//
// Call [For] with what is known of a resource, print [Columns.Definitions], and one [Columns.Row] for each object.
// Every row has at least as many cells as there are definitions; columns with a priority above 0 are for -o wide. A
// resource of which nothing is known has NAME and AGE: [Columns.Known] tells, so that a reader can be told.
//
// Objects are unstructured content of any shape: what is missing, or of another type than it should be, is printed as
// if it were empty, and nothing panics. Objects are only read. Rows depend on nothing but the object and the time that
// is passed.
//
// Where the tables differ from a server's on purpose is in docs/kubectl.md, which a test reads.
package columns
