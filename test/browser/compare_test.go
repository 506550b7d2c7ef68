package browser

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/chromedp/chromedp"
)

// pair is the paths of two snapshots of the mirror. Ten objects differ between them.
type pair struct{ monday, tuesday string }

var twoSnapshots struct {
	once sync.Once
	dir  string
	pair
}

// differences are the changes between the snapshots of a pair, in the text of the page.
var differences = []string{
	"changed fleet/worker-0042", "changed fleet/worker-1234", "changed fleet/worker-2718", "changed fleet/worker-3141",
	"changed fleet/worker-4999", "removed fleet/worker-0007", "removed fleet/worker-4444", "replaced fleet/worker-2500",
	"added fleet/worker-5000", "changed shop/web",
}

// snapshots saves a snapshot, changes ten objects, and saves a second snapshot, once for all tests.
func snapshots(t *testing.T) pair {
	t.Helper()
	twoSnapshots.once.Do(func() {
		twoSnapshots.monday = saveIn(t, site.Dir, "monday.larder")
		changeObjects(t)
		twoSnapshots.tuesday = saveIn(t, site.Dir, "tuesday.larder")
	})
	if twoSnapshots.tuesday == "" {
		t.Fatal("there are no snapshots: an earlier test has failed to save them")
	}
	return twoSnapshots.pair
}

func changeObjects(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	cms, none := client.CoreV1().ConfigMaps("fleet"), metav1.DeleteOptions{}
	patch := func(name, body string) {
		t.Helper()
		must(t, second(cms.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})))
	}
	patch(worker(42), `{"data":{"image":"registry.example/worker:1.5.0"}}`)
	patch(worker(1234), `{"data":{"level":"debug","trace":"on"}}`)
	patch(worker(2718), `{"metadata":{"labels":{"rack":"elsewhere"}}}`)
	patch(worker(3141), `{"data":{"slots":null}}`)
	patch(worker(4999), `{"metadata":{"annotations":{"larder.dev/note":"<img src=x onerror=alert(1)>"}}}`)
	must(t, cms.Delete(ctx, worker(7), none))
	must(t, cms.Delete(ctx, worker(4444), none))
	must(t, cms.Delete(ctx, worker(2500), none))
	for _, i := range []int{2500, workers} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: worker(i)}, Data: map[string]string{"level": "warn"}}
		must(t, second(cms.Create(ctx, cm, metav1.CreateOptions{})))
	}
	must(t, second(client.AppsV1().Deployments("shop").Patch(ctx, "web", types.MergePatchType,
		[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})))
	mirrored(t, "fleet", worker(workers))
}

func mirrored(t *testing.T, namespace, name string) {
	t.Helper()
	config, err := mirror.Config("")
	must(t, err)
	c, err := unlimited(config)
	must(t, err)
	eventually(t, "the mirror does not get "+name, func() bool {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(context.Background(), name, metav1.GetOptions{})
		_, also := c.AppsV1().Deployments("shop").Get(context.Background(), "web", metav1.GetOptions{})
		return err == nil && also == nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestComparison checks that the page finds the ten changes between two snapshots of 5,000 objects, and lists the
// changed fields. For a single change the page must show the object before and after.
func TestComparison(t *testing.T) {
	p := snapshots(t)
	address := serve(t, "--from", p.tuesday, "--compare", p.monday)
	tb := newTab(t)
	tb.open(address, "configmaps")
	clicked := time.Now()
	tb.do(chromedp.Click(`nav a[href="#/compare"]`))
	tb.shows("6 changed")
	t.Logf("compared in %s", time.Since(clicked).Round(time.Millisecond))
	got := evalAs[[]string](tb, `[...document.querySelectorAll(".change summary")].map((e) => e.querySelector(".tag").textContent + " " + e.querySelector(".name").textContent)`)
	want := slices.Sorted(slices.Values(differences))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the differences are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	checkAccessibility(tb)
	for find, want := range map[string][]string{
		"worker-0042":          {"data", "image: registry.example/worker:1.4.2", "image: registry.example/worker:1.5.0"},
		"SPEC.replicas":        {"spec", "replicas: 3", "replicas: 5"},
		"worker-3141":          {"data", "slots: \"5\"", ""},
		"<img src=x onerror=a": {"metadata", "", "annotations:\n  larder.dev/note: <img src=x onerror=alert(1)>"},
	} {
		tb.find(find)
		tb.until(`document.querySelectorAll(".change").length === 1`)
		got := evalAs[[]string](tb, `[...document.querySelector(".fields tbody tr").children].map((e) => e.textContent)`)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the fields are %q, want %q", find, got, want)
		}
	}
	tb.find("worker-0042")
	tb.until(`document.querySelectorAll(".change").length === 1`)
	tb.do(chromedp.Click(`.change button`))
	tb.until(`document.querySelector(".whole")`)
	differ := evalAs[[]string](tb, `[...document.querySelectorAll(".whole tr")].filter((tr) => tr.querySelector(".old, .new"))
		.map((tr) => tr.innerText.replace(/\s+/g, " ").trim())`)
	if len(differ) != 2 || !strings.Contains(differ[0], "1.4.2") || !strings.Contains(differ[0], "1.5.0") ||
		!strings.Contains(differ[1], "resourceVersion") {
		t.Errorf("of the whole objects %q differ", differ)
	}
	checkAccessibility(tb)
}

// TestLogged checks that larder log prints the same ten changes with their fields as the page's comparison.
func TestLogged(t *testing.T) {
	p := snapshots(t)
	larder, err := site.Larder()
	must(t, err)
	started := time.Now()
	out, err := exec.CommandContext(t.Context(), larder, "log", p.monday, p.tuesday).CombinedOutput()
	must(t, err)
	t.Logf("found in %s:\n%s", time.Since(started).Round(time.Millisecond), out)
	var got []string
	fields := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, " ") {
			fields[got[len(got)-1]] += strings.TrimSpace(line) + "\n"
		} else if words := strings.Fields(line); len(words) == 4 { // a line has time, change, resource and key
			got = append(got, words[1]+" "+words[3])
		} else {
			t.Errorf("%q is no change", line)
		}
	}
	if want := slices.Sorted(slices.Values(differences)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	for change, want := range map[string]string{
		"changed fleet/worker-0042": "data\n- image: registry.example/worker:1.4.2\n+ image: registry.example/worker:1.5.0\n",
		"changed fleet/worker-3141": "data\n- slots: \"5\"\n",
		"changed shop/web":          "spec\n- replicas: 3\n+ replicas: 5\n",
	} {
		if fields[change] != want {
			t.Errorf("%s: %q, want %q", change, fields[change], want)
		}
	}
}

func TestNothingToCompare(t *testing.T) {
	address := serve(t, "--from", snapshots(t).monday)
	tb := newTab(t)
	tb.open(address, "configmaps")
	if !evalAs[bool](tb, `document.querySelector('nav a[href="#/compare"]').hidden`) {
		t.Error("there is a link to a comparison")
	}
	tb.do(chromedp.Click(`nav a[href="#/changes"]`))
	tb.shows("Nothing changes in a snapshot.")
	if want := fmt.Sprint("snapshot ", "monday.larder"); !evalAs[bool](tb, `document.querySelector("header").innerText.includes("`+want+`")`) {
		t.Error("the page does not name the snapshot")
	}
}
