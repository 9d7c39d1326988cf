// Package archtest holds the rules of the repository as tests: which package
// may import which, and what a file may look like. Each failure gives the
// reason of its rule.
package archtest
