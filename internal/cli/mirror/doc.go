// Package mirror has larder sync: informers that keep resources of a cluster in one file, and the servers that answer
// requests about the file.
//
// A sync plans first (planner): it resolves names, and checks whether the server lists the resources that are not
// stored yet. Then it opens the store (openMirror), so that a sync that cannot start leaves no file behind. If the
// server cannot be reached, a sync of stored resources starts without that check. A running sync is a service: the
// mirror, its log lines (plainLog), the socket, the health and metrics endpoints (package endpoint), and notifications
// to systemd (notifier).
//
// A follower adjusts the members to the server's resources: it adds members when an unavailable aggregated API returns
// or a new version appears, and ends members of versions that the server has replaced.
//
// A learner stores facts about the server (version, groups, schemas, keys), in the background and after the first
// lists.
//
// mirror.run owns the informers' goroutines, and service.run all others. Both cancel their goroutines and wait for
// them.
package mirror
