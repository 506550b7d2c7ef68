package fakeapi

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestVersions(t *testing.T) {
	s := start(t, Options{})
	client := typed(t, s, runtime.ContentTypeJSON)
	for _, tt := range []struct {
		set, want, minor string
		watchList        bool
	}{
		{"", "v1.36.3+embedded", "36", true},
		{"v1.31.0", "v1.31.0", "31", false},
		{"v1.32.1-eks-5d632ec", "v1.32.1-eks-5d632ec", "32", true},
		{"v1.33.4+k3s1", "v1.33.4+k3s1", "33", false},
		{"v1.34.0", "v1.34.0", "34", true},
		{"unknown", "unknown", "", true},
	} {
		s.SetVersion(tt.set)
		info, err := client.Discovery().ServerVersion()
		must(t, err)
		if info.GitVersion != tt.want || info.Minor != tt.minor {
			t.Errorf("%q: /version is %+v", tt.set, info)
		}
		yes := true
		w, err := client.CoreV1().Pods("").Watch(testContext(t), metav1.ListOptions{
			SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		switch {
		case err == nil:
			w.Stop()
			if !tt.watchList {
				t.Errorf("%q sends initial events", tt.set)
			}
		case tt.watchList || !apierrors.IsInvalid(err):
			t.Errorf("%q: %v", tt.set, err)
		}
	}
}
