// Package oci has package remote read and keep snapshots in a repository of an OCI registry, at
// oci://REGISTRY/REPOSITORY, where the newest is tagged latest, oci://REGISTRY/REPOSITORY:TAG, or
// oci://REGISTRY/REPOSITORY@DIGEST:
//
//	o := remote.Options{Schemes: map[string]remote.Scheme{"oci": oci.Scheme}}
//
// Credentials are those of docker login: in ~/.docker/config.json ($DOCKER_CONFIG), with its helpers. A registry on
// localhost or a loopback address is asked without TLS.
//
// A snapshot is an artifact of the type application/vnd.larder.snapshot.v1, with one layer of that media type, the
// file. Its tag is its name without .larder. It is read by ranges, if the registry has them, as over HTTP; its size
// must be that of the manifest. With a digest in the URL all of it is fetched to a temporary file first, and compared
// with the digest. A registry with TLS cannot lead to a server without it. Removing a snapshot takes a registry that
// deletes manifests, whose garbage collection then frees the space.
package oci
