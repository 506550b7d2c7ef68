// Package yamldir writes a directory of files, one an object.
//
//	d, err := yamldir.Open(path)
//	err = d.Put(yamldir.Path("web", "deployments.apps", "shop"), text) // any number of times
//	d.Close()
//
// The directory is made with the first file. Nothing outside of it is written, whatever links or names there are in it
// (os.Root), and no file is replaced. A Dir is used by one goroutine.
package yamldir
