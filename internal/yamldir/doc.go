// Package yamldir keeps a directory of files, one an object, that is written again and again: it leaves alone what has not
// changed, and removes what it wrote earlier and is gone.
//
//	d, err := yamldir.Open(path)
//	err = d.Put(yamldir.Path("web", "deployments.apps", "shop"), text) // any number of times
//	done, err := d.Finish()
//	d.Close()
//
// A directory has the list of its files in [Marker], a line each in the order of their bytes. Only those are ever replaced or removed. A file that is in
// the way and not in the list is an error, unless it is what would be written. While files are written their names are in
// the journal beside the list, so that those of a process that was killed are known to the next one; it leaves no other file behind than one temporary one, which the
// next one replaces.
//
// Files are written under another name and renamed. Nothing outside of the directory is read or written, whatever links or names
// there are in it (os.Root). A Dir is used by one goroutine, and a directory by one process: there is no lock.
package yamldir
