package fakeapi

import (
	"strconv"
	"sync"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// defaultVersion is what /version says if nobody asked for another.
const defaultVersion = "v1.36.3+embedded"

// release is the version that the server passes itself off as.
type release struct {
	mu         sync.Mutex
	gitVersion string // guarded by mu; empty for defaultVersion
}

// SetVersion makes /version say gitVersion, such as "v1.33.4", and watches refuse sendInitialEvents if that version
// does so unless it is told otherwise (feature gate WatchList). Nothing else changes. One that cannot be parsed is
// told as it is.
func (r *release) SetVersion(gitVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gitVersion = gitVersion
}

func (r *release) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gitVersion == "" {
		return defaultVersion
	}
	return r.gitVersion
}

// info is the answer to /version.
func (r *release) info() version.Info {
	info := version.Info{GitVersion: r.current(), Platform: "embedded"}
	if v, err := utilversion.ParseGeneric(info.GitVersion); err == nil {
		info.Major, info.Minor = strconv.Itoa(int(v.Major())), strconv.Itoa(int(v.Minor()))
	}
	return info
}

// watchList reports whether the version sends initial events: 1.32 does, 1.33 does not, and from 1.34 on all do.
func (r *release) watchList() bool {
	v, err := utilversion.ParseGeneric(r.current())
	if err != nil {
		return true
	}
	return v.AtLeast(utilversion.MajorMinor(1, 34)) || v.Major() == 1 && v.Minor() == 32
}
