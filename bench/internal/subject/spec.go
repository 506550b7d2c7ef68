package subject

import (
	"strings"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// The libraries.
const (
	Larder = "larder"
	// ClientGo is client-go's informer as it comes: it asks for the state by a watch (WatchList).
	ClientGo = "client-go"
	// ClientGoList is the same with KUBE_FEATURE_WatchListClient=false: it lists.
	ClientGoList = "client-go-list"
	// Raw is no informer: bbolt, or Larder's store, used directly, as the limit of what an informer can reach.
	Raw = "raw"
)

// The residencies of Larder.
const (
	All     = "All"
	Bounded = "Bounded"
	None    = "None"
)

// Residencies are their names, in the order of the rows.
var Residencies = []string{All, Bounded, None}

// residencies are what they stand for. Bounded holds what the goals say: 64 MB.
var residencies = map[string]store.Residency{All: store.All, Bounded: store.Bounded(64 << 20), None: store.None}

// Spec says what is measured.
type Spec struct {
	Library string `json:"library"`
	// Residency is Larder's.
	Residency string `json:"residency,omitempty"`
	// Policy is Larder's, where a scenario asks for both; Resumed where it is empty.
	Policy informer.SyncPolicy `json:"policy,omitempty"`
	// CommitInterval is Larder's, where a scenario asks for another; its default where it is 0.
	CommitInterval time.Duration `json:"commitInterval,omitempty"`
	// Dynamic is for unstructured objects.
	Dynamic bool `json:"dynamic,omitempty"`
}

// String names the subject in progress lines.
func (s Spec) String() string {
	parts := []string{s.Library}
	if s.Residency != "" {
		parts = append(parts, s.Residency)
	}
	if s.Policy != "" {
		parts = append(parts, string(s.Policy))
	}
	if s.CommitInterval != 0 {
		parts = append(parts, s.CommitInterval.String())
	}
	if s.Dynamic {
		parts = append(parts, "dynamic")
	}
	return strings.Join(parts, " ")
}

// Env is what the process of the subject needs in its environment.
func (s Spec) Env() []string {
	if s.Library == ClientGoList {
		return []string{"KUBE_FEATURE_WatchListClient=false"}
	}
	return nil
}
