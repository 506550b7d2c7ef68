package reflector_test

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

// half is a shard selector that selects about half of all UIDs.
var half = sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0x0000000000000000",
	End: "0x8000000000000000"})

// newUID returns the next UID. If the server has shards, it is a hash that is spread like real UIDs.
func (s *server) newUID() types.UID {
	plain := fmt.Sprintf("uid-%d", s.uid)
	if s.view == nil {
		return types.UID(plain)
	}
	return types.UID(fmt.Sprintf("%x", sha256.Sum256([]byte(plain)))[:32])
}

func (s *server) viewed(cm *corev1.ConfigMap) bool {
	if s.view == nil {
		return true
	}
	ok, err := s.view.Matches(cm)
	return ok && err == nil
}

func (s *server) sends(cm *corev1.ConfigMap) bool { return !s.supportsShards || s.viewed(cm) }

// nextIn chooses the UID of the next object: in the reflector's shard if view is true, otherwise in another shard.
func (s *server) nextIn(view bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.uid++
		if s.viewed(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: s.newUID()}}) == view {
			s.uid--
			return
		}
	}
}
