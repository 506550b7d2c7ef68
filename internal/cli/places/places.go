// Package places has the schemes of the URLs at which commands read and write snapshots.
package places

import (
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/snapshot/remote/oci"
	"github.com/larder-dev/larder/snapshot/remote/s3"
)

// Options are those with which the command reaches s3 and oci, too.
func Options() remote.Options {
	return remote.Options{Schemes: map[string]remote.Scheme{"s3": s3.Scheme, "oci": oci.Scheme}}
}

// URLs says in a usage text what URLs there are.
const URLs = "DIR/, s3://BUCKET/PREFIX/ or oci://REGISTRY/REPOSITORY"
