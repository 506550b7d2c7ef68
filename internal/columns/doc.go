// Package columns returns the columns of a resource's table, and an object's row, as a Kubernetes API server does when
// kubectl requests a table. It needs no server: the columns of Kubernetes' own resources are in this package (one file
// per family), and custom resources have their additionalPrinterColumns.
//
// Call [For] with the resource, print [Columns.Definitions], and one [Columns.Row] for each object. Every row has a
// cell for each definition; columns with a priority above 0 are for -o wide. An unknown resource has NAME and AGE, and
// [Columns.Known] returns false, so that the program can report it.
//
// Objects are unstructured content of any shape. Missing values, and values of a wrong type, are printed as empty, and
// nothing panics. Objects are not modified. Rows depend only on the object and the given time.
//
// docs/kubectl.md lists the intended differences from a server's tables; a test reads it.
package columns
