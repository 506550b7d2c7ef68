// Package served has the start-up of tests that look at Larder from outside: an API server, the programs, and a larder
// sync that serves a mirror.
//
//	func TestMain(m *testing.M) {
//		served.Run("name", controlplane.Options{}, func(s *served.Site) (int, error) { site = s; return m.Run(), nil })
//	}
//
// Every process ends with the test that started it, by its own id. After a failure the directory with all logs is kept,
// and its name printed.
package served
