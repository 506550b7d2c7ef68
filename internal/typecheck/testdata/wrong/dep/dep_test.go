package dep_test

import "example.com/wrong/dep"

var name = dep.Name
