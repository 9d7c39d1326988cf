package api

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// sendMethods are the methods that the description names; others in capitals
// are taken too, but CONNECT and TRACE.
var sendMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// sendInput describes the options of a request that is itself the job; what is
// read is in sendOptions, and a test compares the two.
type sendInput struct {
	DestinationPath
	Path           string `path:"path" doc:"Of the request to the destination, below the target's URL; it may hold slashes, and a query follows it" example:"payouts"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"1 to 255 visible characters, quoted or bare; a repeated key makes no second job"`
	Tenant         string `header:"Tundish-Tenant" doc:"Fairness key, at most 128 bytes"`
	Priority       int    `header:"Tundish-Priority" minimum:"0" maximum:"9" default:"5" doc:"0 goes first"`
	DeliverAt      string `header:"Tundish-Deliver-At" doc:"RFC 3339, at most 60 s ahead"`
	Delay          string `header:"Tundish-Delay" doc:"Instead of Tundish-Deliver-At, such as 10s"`
	ExpiresIn      string `header:"Tundish-Expires-In" doc:"Not sent after this time, such as 1h"`
	Timeout        string `header:"Tundish-Timeout" doc:"Of one attempt; may only lower the destination's"`
	MaxAttempts    int    `header:"Tundish-Max-Attempts" minimum:"1" doc:"May only lower the destination's"`
	Metadata       string `header:"Tundish-Metadata" doc:"Up to 20 strings as a JSON object, given back with the job"`
	Prefer         string `header:"Prefer" doc:"wait=10: answer as the destination does if the job ends within 10 s (at most 30), else as without it"`
}

const sendText = "The request itself becomes the job: method, path, query, headers and the body byte for byte, without hop-by-hop and forwarding headers, " +
	"cookies, Accept-Encoding and credentials. With Prefer: wait the destination's own answer comes back with the header Tundish-Response, " +
	"which says how much of it is known: kept, truncated, or status-only where the contract keeps no answers. " +
	"A job that ended without an answer is 502, or 504 after a timeout."

// sendRoutes describes the call once for each method, and lets the mux find it.
func (a *API) sendRoutes(h huma.API, mux *directMux, g *gate) {
	mux.send = &sender{a, g}
	for _, method := range sendMethods {
		options := []option{needs(ScopeEnqueue), passesRequests}
		if method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions {
			options = append(options, anyBody)
		}
		register[sendInput, pushOutput](h, method, sendRoute, "send-"+strings.ToLower(method), "Pass a "+method+" request on", nil, options...)
	}
}

// passesRequests says what all methods have in common.
func passesRequests(_ huma.API, op *huma.Operation) func(*huma.Operation) {
	op.DefaultStatus = http.StatusAccepted
	return func(op *huma.Operation) { op.Description += " " + sendText }
}

// anyBody says that a request may have any body or none.
func anyBody(huma.API, *huma.Operation) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	}
}
