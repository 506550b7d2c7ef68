// Package yamldir writes a directory of files, one for each object.
//
//	d, err := yamldir.Open(path)
//	err = d.Put(yamldir.Path("web", "deployments.apps", "shop"), text) // any number of times
//	d.Close()
//
// The first Put creates the directory. Links and names in the directory never lead to writes outside the directory
// (os.Root), and no file is replaced. A Dir is not safe for concurrent use.
package yamldir
