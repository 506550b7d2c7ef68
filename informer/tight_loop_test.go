package informer_test

import (
	"fmt"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTightLoop checks that many starts in a row make few small requests and no list, and leave no files but the store.
func TestTightLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 10 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		r.start()
		r.close()
		requests := 0
		r.srv.setFail(func(string, metav1.ListOptions) error {
			requests++ // the server calls this function with its mutex held
			return nil
		})
		const lives = 50
		for life := range lives {
			if life%3 == 0 {
				r.srv.write(fmt.Sprintf("a/%d", life%10), fmt.Sprint(life))
			}
			r.start()
			equal(t, fmt.Sprintf("life %d", life), r.stored(), r.srv.state())
			r.close()
		}
		if lists, _ := r.srv.requests(); lists != 1 {
			t.Errorf("%d lists", lists)
		}
		t.Logf("%.1f requests a life", float64(requests)/lives)
		if requests > 9*lives {
			t.Errorf("%d requests in %d lives", requests, lives)
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(r.path), "*"))
		if err != nil || len(files) != 1 {
			t.Errorf("there are %q, %v", files, err)
		}
	})
}
