// Package schemes lists the URL schemes (directories, s3 and oci) with which commands read and write snapshots.
package schemes

import (
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/snapshot/remote/oci"
	"github.com/larder-dev/larder/snapshot/remote/s3"
)

// Options returns the options of package remote that add the schemes s3 and oci.
func Options() remote.Options {
	return remote.Options{Schemes: map[string]remote.Scheme{"s3": s3.Scheme, "oci": oci.Scheme}}
}

// URLs lists the supported URLs, for usage texts.
const URLs = "DIR/, s3://BUCKET/PREFIX/ or oci://REGISTRY/REPOSITORY"
