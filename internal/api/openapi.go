package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tundish/internal/job"
)

// openAPIConfig is huma's with what we do ourselves switched off: its pages
// load scripts from other hosts, and its document is made while it is served.
func openAPIConfig(version string) huma.Config {
	cfg := huma.DefaultConfig("Tundish", version)
	cfg.Info.Description = "Outbound job throttler: push jobs into a bounded queue per destination; they are sent at the destination's rate."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil // would put $schema into every answer
	cfg.RejectUnknownQueryParameters = true
	// Answers may grow within /v1, so what is generated from the document must
	// not refuse what it does not know. Requests say that they are strict.
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "A producer's key; also as Tundish-Key or the user name of Basic. Not needed where the enqueuer runs without keys."},
	}
	return cfg
}

// schemaNames are the names that clients see, where our types have others.
var schemaNames = map[string]string{
	"JobSchema": "Job", "BatchSchema": "Batch", "ReasonSchema": "Reason",
	"EmailSchema": "Email", "AttachmentSchema": "Attachment",
	"JobView": "JobStatus", "AttemptView": "Attempt", "ResponseView": "Response",
	"DestinationView": "Destination", "SourceView": "Source", "LiveView": "Live", "Filled": "Effective",
	"ResolveSchema": "Resolve", "FilterSchema": "Filter", "RedriveSchema": "Redrive", "PurgeSchema": "Purge",
	"PayloadView": "Payload", "HeaderView": "Header", "ResponsePayloadView": "ResponsePayload", "OperationView": "Operation",
	"JobsOutputBody": "JobList", "OperationsOutputBody": "OperationList",
	"BatchOutputBody": "BatchResults", "ListOutputBody": "DestinationList", "ChangeOutputBody": "Change",
}

func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	return cmp.Or(schemaNames[name], name)
}

// option changes an operation before it is registered; what it returns
// changes the description afterwards.
type option func(huma.API, *huma.Operation) func(*huma.Operation)

// status is what success answers.
func status(code int) option {
	return func(_ huma.API, op *huma.Operation) func(*huma.Operation) {
		op.DefaultStatus = code
		return nil
	}
}

// needs names the scopes of which a key must have one.
func needs(scopes ...Scope) option {
	return func(_ huma.API, op *huma.Operation) func(*huma.Operation) {
		op.Metadata[scopeOf] = scopes
		names := make([]string, 0, len(scopes))
		for _, s := range scopes {
			names = append(names, string(s))
		}
		op.Security = []map[string][]string{{"key": {}}, {}}
		op.Description = "Needs the scope " + strings.Join(names, " or ") + "."
		return nil
	}
}

// also adds a sentence to what is said of the operation.
func also(text string) option {
	return func(huma.API, *huma.Operation) func(*huma.Operation) {
		return func(op *huma.Operation) { op.Description += " " + text }
	}
}

// accepts describes the request's body. It is done after the registration
// because huma would otherwise read and check the body by itself.
func accepts[T any](kind string) option {
	return func(h huma.API, _ *huma.Operation) func(*huma.Operation) {
		schema := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
		return func(op *huma.Operation) {
			op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{kind: {Schema: schema}}}
		}
	}
}

// alsoNDJSON adds the line form of a batch.
func alsoNDJSON(huma.API, *huma.Operation) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.RequestBody.Content[typeNDJSON] = &huma.MediaType{Schema: &huma.Schema{Type: "string", Description: "One job as JSON on each line"}}
	}
}

// describeWaits describes what every operation may answer to who comes too often or
// while Redis does not serve: programs that are made from the document see Retry-After.
func describeWaits(op *huma.Operation) {
	retry := map[string]*huma.Param{"Retry-After": {Description: "Seconds to wait before the same request, with the same Idempotency-Key; retry_after_ms is exact",
		Schema: &huma.Schema{Type: "integer"}}}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Headers: retry, Content: op.Responses["default"].Content}
	}
}

// describeCodes lists the codes of errors. It is no enum: there may be more within /v1.
func describeCodes(h huma.API) {
	statuses := map[string]int{}
	for _, c := range job.Codes() {
		statuses[string(c)] = c.Status()
	}
	texts := make([]string, 0, len(statuses))
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		texts = append(texts, fmt.Sprintf("%s (%d)", code, statuses[code]))
	}
	h.OpenAPI().Components.Schemas.Map()["Problem"].Properties["code"].Description = "For programs: " + strings.Join(texts, ", ")
}

// operationAt finds the operation that huma has registered.
func operationAt(h huma.API, method, path string) *huma.Operation {
	item := h.OpenAPI().Paths[path]
	switch method {
	case http.MethodGet:
		return item.Get
	case http.MethodPut:
		return item.Put
	case http.MethodPost:
		return item.Post
	case http.MethodPatch:
		return item.Patch
	case http.MethodHead:
		return item.Head
	case http.MethodOptions:
		return item.Options
	default:
		return item.Delete
	}
}

// serveOpenAPI makes the document once and serves it. It holds nothing
// secret, so no key is asked for.
func serveOpenAPI(mux *http.ServeMux, h huma.API) error {
	doc, err := json.Marshal(h.OpenAPI())
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(doc) // the caller is gone if this fails
	})
	return nil
}
