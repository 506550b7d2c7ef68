package subject

import (
	"strings"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// Values of Spec.Library: the compared implementations.
const (
	Larder = "larder"
	// ClientGo is client-go's informer with its defaults: it lists by a watch (WatchList).
	ClientGo = "client-go"
	// ClientGoList is client-go's informer with KUBE_FEATURE_WatchListClient=false: it lists by LIST requests.
	ClientGoList = "client-go-list"
	// Raw is bbolt or Larder's store without an informer: the upper bound for any informer.
	Raw = "raw"
)

// Values of Spec.Residency: whether Larder keeps decoded objects in memory.
const (
	All  = "All"
	None = "None"
)

// Residencies has the values of Spec.Residency, in the order of the results.
var Residencies = []string{All, None}

var residencies = map[string]store.Residency{All: store.All, None: store.None}

// Spec names an informer and its options.
type Spec struct {
	Library string `json:"library"`
	// Residency tells whether Larder keeps decoded objects in memory; empty for other libraries.
	Residency string `json:"residency,omitempty"`
	// Policy is the sync policy of Larder's informer. Default: Resumed.
	Policy informer.SyncPolicy `json:"policy,omitempty"`
	// CommitInterval is the time between Larder's commits. Default: Larder's default.
	CommitInterval time.Duration `json:"commitInterval,omitempty"`
	// Strip is true if the informer has a transform that removes managedFields.
	Strip   bool `json:"strip,omitempty"`
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
	if s.Strip {
		parts = append(parts, "stripped")
	}
	if s.Dynamic {
		parts = append(parts, "dynamic")
	}
	return strings.Join(parts, " ")
}

// Env returns additional environment variables for the process that runs the informer.
func (s Spec) Env() []string {
	if s.Library == ClientGoList {
		return []string{"KUBE_FEATURE_WatchListClient=false"}
	}
	return nil
}
