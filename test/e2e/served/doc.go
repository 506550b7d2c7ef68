// Package served starts the environment of tests that use Larder from outside: an API server, the programs, and a
// larder sync that serves a mirror.
//
//	func TestMain(m *testing.M) {
//		served.Run("name", controlplane.Options{}, func(s *served.Site) (int, error) { site = s; return m.Run(), nil })
//	}
//
// Every process is ended by process id with the test that started it. After a failure the directory with all logs is
// kept, and its name is printed.
package served
