package e2e

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestSymptoms causes each problem in docs/troubleshooting.md. A search of the page for the symptom must find the right
// section. A symptom is a command's output, a sync's log or status, or the error class in its metrics.
func TestSymptoms(t *testing.T) {
	t.Parallel()
	c := newCommand(t, newCluster(t, shared))
	c.createConfigMaps(t, names("cm", 0, 50), "v")
	c.createSecret(t)
	public := strings.TrimSpace(c.run("keygen", "--signing", "sign.key"))
	c.run("keygen", "store.key")
	c.run("keygen", "other.key")
	good := c.sync("good")
	c.live("good", good)
	good.terminate(t)
	c.run("snapshot", "save", "good.larder", "--from", "good.db")
	for section, see := range map[string]func(broken) string{
		"connection": func(b broken) string {
			b.copied("good.db", "away.db", nothing)
			return b.while("connection", "away", "--server", "https://127.0.0.1:1")
		},
		"denied": func(b broken) string {
			return b.fails("sync", "configmaps", "--store", "denied.db", "--kubeconfig", "kubeconfig", "--token", "nobody")
		},
		"notserved": func(b broken) string {
			return b.fails("sync", "widgets.none.example.com", "--store", "none.db", "--kubeconfig", "kubeconfig")
		},
		"nospace": func(b broken) string {
			b.ns = b.newNamespace(b.t)
			b.createConfigMaps(b.t, names("large", 0, 80), strings.Repeat("large", 20_000))
			return b.while("nospace", "small", "--max-size", "5Mi")
		},
		"memory": func(b broken) string { return b.while("memory", "secret", "secrets") },
		"locked": func(b broken) string {
			p := b.sync("held")
			b.live("held", p)
			defer p.kill()
			return b.fails("sync", "configmaps", "-n", b.ns, "--store", "held.db", "--kubeconfig", "kubeconfig")
		},
		"damaged": func(b broken) string {
			b.copied("good.db", "damaged.db", func(data []byte) {
				for i := 2 * 4096; i < len(data); i += 512 {
					data[i] ^= 0xff
				}
			})
			return b.while("damaged", "damaged")
		},
		"replaced": func(b broken) string {
			p := b.sync("replaced", "--listen", "127.0.0.1:0")
			b.live("replaced", p)
			b.copied("good.db", "another.db", nothing)
			must(b.t, os.Rename(filepath.Join(b.dir, "another.db"), filepath.Join(b.dir, "replaced.db")))
			b.putConfigMaps(b.t, names("cm", 0, 3), "new")
			defer p.kill()
			return b.until(p, "replaced")
		},
		"format": func(b broken) string {
			b.copied("good.db", "newer.db", nothing)
			setFormat(b.t, filepath.Join(b.dir, "newer.db"), 99)
			return b.fails("status", "newer.db") +
				b.fails("sync", "configmaps", "--store", "newer.db", "--kubeconfig", "kubeconfig")
		},
		"foreign": func(b broken) string {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "foreign.db"), bytes.Repeat([]byte("no store\n"), 10_000), 0o600))
			return b.fails("sync", "configmaps", "--store", "foreign.db", "--kubeconfig", "kubeconfig")
		},
		"keys": func(b broken) string {
			p := b.sync("sealed", "secrets", "--key-file", "store.key")
			b.live("sealed", p)
			p.terminate(b.t)
			return b.fails("get", "secrets", "-A", "--from", "sealed.db", "--key-file", "other.key")
		},
		"snapshotdamaged": func(b broken) string {
			b.copied("good.larder", "damaged.larder", func(data []byte) { data[len(data)/2] ^= 0xff })
			return b.fails("check", "--from", "damaged.larder")
		},
		"seed": func(b broken) string {
			return b.while("seed", "seeded", "--seed", "good.larder", "--seed-key", public)
		},
		"changes": func(b broken) string {
			return b.fails("watch", "configmaps", "-A", "--from", "good.db", "--since", "1")
		},
		"snapshots": func(b broken) string {
			must(b.t, os.Mkdir(filepath.Join(b.dir, "kept"), 0o700))
			p := b.sync("maker", "--snapshot-to", "kept/", "--snapshot-every", "1s")
			b.live("maker", p)
			must(b.t, os.Rename(filepath.Join(b.dir, "kept"), filepath.Join(b.dir, "moved")))
			must(b.t, os.WriteFile(filepath.Join(b.dir, "kept"), nil, 0o600))
			b.putConfigMaps(b.t, names("cm", 0, 1), "news")
			defer p.kill()
			return b.until(p, "snapshots")
		},
	} {
		t.Run(section, func(t *testing.T) {
			of, at := *c, *c.cluster // a copy, because a case may change the namespace
			of.t, of.cluster = t, &at
			seen := see(broken{&of})
			found := sectionsOf(t, seen)
			if !slices.Contains(found, section) || len(found) > 2 {
				t.Errorf("what is seen leads to %q:\n%s", found, seen)
			}
			t.Log(found)
		})
	}
}

type broken struct{ *command }

func (b broken) copied(from, to string, damage func([]byte)) {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, from))
	must(b.t, err)
	damage(data)
	must(b.t, os.WriteFile(filepath.Join(b.dir, to), data, 0o600))
}

func (b broken) fails(args ...string) string {
	b.t.Helper()
	out, err := b.command.command(args...).CombinedOutput()
	if err == nil {
		b.t.Errorf("larder %s: %s", args, out)
	}
	return string(out)
}

// while runs a larder sync until its log, status or metrics have a symptom of the section. It returns the log, status
// and metrics.
func (b broken) while(section, store string, more ...string) (seen string) {
	b.t.Helper()
	p := b.sync(store, append(more, "--listen", "127.0.0.1:0")...)
	defer p.kill()
	p.eventually(b.t, section, func() string {
		status, _ := b.command.command("status", store+".db").CombinedOutput() // fails as long as no store exists
		whole, err := b.command.command("status", store+".db", "-o", "json").CombinedOutput()
		seen = p.stderr() + string(status) + string(whole)
		if err == nil && strings.Contains(string(whole), `"listen"`) {
			seen += scrape(b.t, b.command, store)
		}
		if !slices.Contains(sectionsOf(b.t, seen), section) {
			return seen
		}
		return ""
	})
	return seen
}

func (b broken) until(p *program, section string) string {
	b.t.Helper()
	p.eventually(b.t, section, func() string {
		if log := p.stderr(); !slices.Contains(sectionsOf(b.t, log), section) {
			return log
		}
		return ""
	})
	return p.stderr()
}

func nothing([]byte) {}

func setFormat(t *testing.T, path string, version uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		data := binary.BigEndian.AppendUint64(nil, version)
		sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		return tx.Bucket([]byte("larder")).Put([]byte("format"), binary.BigEndian.AppendUint32(data, sum))
	}))
	must(t, db.Close())
}

var quoted = regexp.MustCompile("`([^`]+)`")

// sectionsOf returns the sections of docs/troubleshooting.md to which a text leads: by a link in an error, by words
// that the page quotes, or by an error class of the metrics.
func sectionsOf(t *testing.T, seen string) (found []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	must(t, err)
	seen = strings.Join(strings.Fields(seen), " ")
	parts := regexp.MustCompile(`(?m)^<a id="([a-z]+)"></a>\n## `).FindAllSubmatchIndex(page, -1)
	for i, at := range parts {
		end := len(page)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		if strings.Contains(seen, "troubleshooting.md#"+string(page[at[2]:at[3]])) {
			found = append(found, string(page[at[2]:at[3]]))
			continue
		}
		_, see, _ := strings.Cut(string(page[at[1]:end]), "**See**")
		see, _, _ = strings.Cut(see, "\n- **")
		for _, q := range quoted.FindAllStringSubmatch(strings.Join(strings.Fields(see), " "), -1) {
			words := q[1]
			if regexp.MustCompile(`^[A-Z]\w+$`).MatchString(words) {
				words = `class="` + words + `"`
			} else if !strings.Contains(words, " ") {
				continue
			}
			if strings.Contains(seen, words) {
				found = append(found, string(page[at[2]:at[3]]))
				break
			}
		}
	}
	return found
}
