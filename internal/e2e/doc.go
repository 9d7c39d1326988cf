// Package e2e holds the whole product against its promises, from outside: real
// enqueuer and worker processes, a real Redis, a strict bank, HTTP. It has
// tests and benchmarks only; processes are killed, frozen and stopped by their
// own pid, and die with the test binary.
package e2e
