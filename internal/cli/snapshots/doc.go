// Package snapshots has larder snapshot: save (of a file, through the sync that holds a store, or of a live server),
// restore, export (YAML files, written by package yamldir, or JSON lines), and the commands for repositories.
package snapshots
