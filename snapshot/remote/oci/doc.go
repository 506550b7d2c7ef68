// Package oci lets package remote read and keep snapshots in a repository of an OCI registry. A URL is
// oci://REGISTRY/REPOSITORY for the tag latest, oci://REGISTRY/REPOSITORY:TAG, or oci://REGISTRY/REPOSITORY@DIGEST:
//
//	o := remote.Options{Schemes: map[string]remote.Scheme{"oci": oci.Scheme}}
//
// Credentials come from docker login: ~/.docker/config.json ($DOCKER_CONFIG), with its helpers. A registry on localhost
// or a loopback address is used without TLS.
//
// A snapshot is an artifact of the type application/vnd.larder.snapshot.v1. Its only layer, of the same media type, is
// the file. Its tag is its name without .larder. It is read by ranges, as over HTTP, if the registry supports them; its
// size must match the manifest. For a URL with a digest, the whole file is first downloaded to a temporary file and
// compared with the digest. A registry with TLS cannot redirect to a server without TLS. Removing a snapshot needs a
// registry that deletes manifests; its garbage collection then frees the space.
package oci
