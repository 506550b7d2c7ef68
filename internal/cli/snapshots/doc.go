// Package snapshots is larder snapshot: save (of a file, of the sync that holds it, or of a live server), restore and
// export (as files of YAML, which package yamldir writes, or as lines of JSON).
package snapshots
