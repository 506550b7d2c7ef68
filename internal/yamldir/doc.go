// Package yamldir keeps a directory of files, one an object, that is written again and again: it leaves alone what has
// not changed, and removes what it wrote earlier and is gone.
//
//	d, err := yamldir.Open(path)
//	d.Cover(yamldir.Scope{Resource: "deployments.apps"}) // of which all files are to come
//	err = d.Make()
//	err = d.Put(yamldir.Path("web", "deployments.apps", "shop"), "", text) // any number of times
//	done, err := d.Finish()
//	d.Close()
//
// A directory has the list of its files in [Marker], a line each in the order of their bytes: the name, a digest of
// what was written, and what of the resource was selected if that was not all. Only those are ever replaced or removed,
// and only while they are as they were written (ErrEdited). A file that is in the way and not in the list is an error
// (ErrForeign), unless it is what would be written. Rehearse finds edited and foreign files before anything is changed.
//
// Removed are files within the scopes that are covered, and no others: a resource, in some namespaces or in all. Of a
// scope with a selection they are those that were last written for the same selection, since of others nobody knows
// whether they are gone or not selected.
//
// While files are written their lines are in the journal beside the list, so that those of a process that was killed
// are known to the next one; it leaves no other file behind than one temporary one, which the next one removes. Nothing
// is changed, or made, before Make.
//
// Files are written under another name and renamed. Nothing outside of the directory is read or written, whatever links
// or names there are in it (os.Root). A Dir is used by one goroutine, and a directory by one process: there is no lock.
package yamldir
