package fakeapi

import (
	"strconv"
	"sync"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// defaultVersion is the gitVersion in /version unless SetVersion was called.
const defaultVersion = "v1.36.3+embedded"

type release struct {
	mu         sync.Mutex
	gitVersion string // the gitVersion of SetVersion, or empty; mu guards gitVersion
}

// SetVersion sets the gitVersion in /version, such as "v1.33.4". Watches refuse sendInitialEvents if the feature gate
// WatchList is off by default in that version. SetVersion has no other effect. A version that cannot be parsed is
// reported unchanged, and supports sendInitialEvents.
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

func (r *release) info() version.Info {
	info := version.Info{GitVersion: r.current(), Platform: "embedded"}
	if v, err := utilversion.ParseGeneric(info.GitVersion); err == nil {
		info.Major, info.Minor = strconv.Itoa(int(v.Major())), strconv.Itoa(int(v.Minor()))
	}
	return info
}

// watchList reports whether the version supports sendInitialEvents by default: 1.32 does, 1.33 does not, and from 1.34
// on all do.
func (r *release) watchList() bool {
	v, err := utilversion.ParseGeneric(r.current())
	if err != nil {
		return true
	}
	return v.AtLeast(utilversion.MajorMinor(1, 34)) || v.Major() == 1 && v.Minor() == 32
}
