// Package api is the enqueuer's door: the HTTP API through which producers
// push jobs and operators look after destinations. It parses and checks what
// callers send, knows who they are, joins concurrent pushes into few calls of
// the store, and turns every failure into one form of answer. It owns no
// state that outlives the process.
//
// A request passes, from the outside in:
//
//	entry     request id, metrics, panics, cross-site check, 404 and 405
//	huma      parameters, answers, the OpenAPI document; push, batch and send
//	          are only described by it and served by direct and passed
//	guard     keys, scopes, which destinations a producer may see
//	handlers  one file per resource
//	commit    group commit of pushes, one call under way per destination
package api
