//go:build race

package e2e

// buildFlags build the programs as the tests themselves are built: a data race
// in one of them then fails the test that met it.
var buildFlags = []string{"-race"}
