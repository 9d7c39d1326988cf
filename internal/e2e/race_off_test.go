//go:build !race

package e2e

// buildFlags build the programs as the tests themselves are built.
var buildFlags []string
