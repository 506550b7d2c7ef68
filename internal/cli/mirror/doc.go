// Package mirror is larder sync: informers that keep resources of a cluster in one file, and answer for it.
//
// A sync plans first (planner: names are resolved, and the server is asked whether it lists what is not stored yet) and
// opens the store after that (openMirror), so that one that cannot begin leaves nothing behind. While the server is out
// of reach, what is stored needs no plan. It is a service then: the mirror, its lines of log (plainLog), the socket,
// the health and metrics endpoints (package endpoint), and what systemd is told (notifier).
//
// A follower keeps the members in step with the server: it adds those of an aggregated API that was away and of a new
// version, and ends those of a version that the server has replaced.
//
// A learner has the store keep what the server says of itself (its version, groups, schemas and keys), in the
// background and after the lists.
//
// mirror.run owns the informers' goroutines, service.run all others: each cancels its own and waits for them.
package mirror
