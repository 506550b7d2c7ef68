// Package none is on windows only.
package none
