package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// Store is what the door needs of the lanes. Errors that a caller is to be
// told are *job.Error.
type Store interface {
	pusher
	reader
	ending
	Job(ctx context.Context, destination string, id job.ID) (*queue.Status, error)
	actor
	operator
	Destinations(ctx context.Context, prefix, after string, limit int) (list []*queue.Destination, next string, err error)
	Apply(ctx context.Context, req queue.ApplyRequest) (d *queue.Destination, created bool, err error)
	DeleteOf(ctx context.Context, set, name string, ifVersion int64, cancelJobs bool) (effective time.Duration, err error)
	Pause(ctx context.Context, name, reason string) (effective time.Duration, err error)
	Resume(ctx context.Context, name string) (effective time.Duration, err error)
}

// Config is what New needs.
type Config struct {
	Store Store
	// Keys are the producers' keys; nil: no key is needed and every caller
	// may do everything.
	Keys *Keys
	// OwnNames: answer only requests whose Host is an address or a name of this
	// machine. For a door without keys, which a page of another site could reach
	// under a name of its own.
	OwnNames bool
	// Named says whether a file of this process names the destination: while the
	// store does not have it, it is unavailable and not unknown. Default: none is.
	Named func(name string) bool
	// Seal makes of a secret what may be stored. Default: secrets are refused.
	Seal func(destination, name, value string) string
	// Begin hands an operation that the store has over to the workers. Default: they find it.
	Begin func(ctx context.Context, ref queue.OperationRef) error
	// Version of the program, for the OpenAPI document. Default "dev".
	Version string
	// Log gets what a caller must not see. Default: nothing is logged.
	Log *slog.Logger
	// Registerer gets the metrics. Default: they are not exposed.
	Registerer prometheus.Registerer
	// MetricsDestinations bounds the destination labels. Default 200.
	MetricsDestinations int
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
}

func (c *Config) fill() error {
	if c.Store == nil {
		return errors.New("api: Store must be given")
	}
	if c.MetricsDestinations < 0 {
		return errors.New("api: MetricsDestinations is negative")
	}
	if c.Named != nil {
		c.Store = namedStore{c.Store, c.Named}
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = c.Log.With("component", "api")
	return nil
}

// API is the door. Its Handler wants a server with ReadHeaderTimeout,
// IdleTimeout and MaxHeaderBytes (64 KiB holds the contract's bounds); it
// bounds the reading of bodies itself, and ReadTimeout would be lifted by that.
type API struct {
	cfg       Config
	commit    *committer
	contracts *contracts
	refusals  *refusals
	waiters   *waiters
	metrics   *metrics
	handler   http.Handler
	cancel    context.CancelCauseFunc
}

// New makes the door. Close ends what it runs.
func New(cfg Config) (*API, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer, cfg.MetricsDestinations)
	if err != nil {
		return nil, err
	}
	base, cancel := context.WithCancelCause(context.Background())
	a := &API{cfg: cfg, metrics: m, cancel: cancel}
	a.commit = &committer{store: cfg.Store, base: base, timeout: callTimeout, onPanic: a.panicked, lanes: map[string][]*entryGroup{}}
	a.contracts = &contracts{store: cfg.Store, base: base, timeout: callTimeout, onPanic: a.panicked, now: time.Now, held: map[string]*heldContract{}}
	a.refusals = &refusals{now: time.Now, lanes: map[string]*refusalCount{}}
	a.waiters = newWaiters(cfg.Store)
	mux := &directMux{ServeMux: http.NewServeMux(), direct: map[string]*direct{}}
	if err := a.routes(mux); err != nil {
		cancel(err)
		return nil, err
	}
	a.handler = &entry{mux: mux, origin: http.NewCrossOriginProtection(), metrics: m, log: cfg.Log, bodies: &bodies{limit: bodiesBytes},
		ownNames: cfg.OwnNames}
	return a, nil
}

// Handler serves the API.
func (a *API) Handler() http.Handler { return a.handler }

// KeepSeries drops the metrics of destinations that are gone, so that others
// may have their labels. Call it with each new list of all destinations: one
// that is missing for a while is gone.
func (a *API) KeepSeries(exists func(name string) bool) { a.metrics.keep(exists) }

// EndWaits answers requests that wait for the end of their job, now and from
// now on, as those that do not wait. Call it before the server stops, which
// would wait for them.
func (a *API) EndWaits() { a.waiters.stop() }

// Close answers what still waits and returns when no call of the store is
// under way, at most a few seconds later. Stop the server first.
func (a *API) Close() {
	a.commit.close()
	a.cancel(errStopping)
	a.contracts.wait.Wait()
}

func (a *API) panicked(reason any) {
	a.cfg.Log.Error("a call of the store panicked", "panic", reason, "stack", string(debug.Stack()))
}

// problem is newProblem for what may come from inside: an error without a
// code is logged here, because the caller is not told its text.
func (a *API) problem(ctx context.Context, err error) *problem {
	p := newProblem(ctx, err)
	if p.Code == job.CodeInternal {
		a.cfg.Log.Error("request failed", "request_id", p.RequestID, "error", err)
	}
	return p
}

// contract finds the contract that governs a push.
func (a *API) contract(ctx context.Context, name string) (*destination.Contract, error) {
	if destination.ValidName(name) != nil {
		return nil, noDestination(name)
	}
	return a.contracts.get(ctx, name)
}

// routes registers every operation and the document that describes them.
func (a *API) routes(mux *directMux) error {
	humaGlobals()
	h := humago.New(mux, openAPIConfig(a.cfg.Version))
	g := &gate{keys: a.cfg.Keys, bad: newBadKeys(a.cfg.Now)}
	h.UseMiddleware(g.guard)

	const one = "/v1/destinations/{destination}"
	enqueue := []Scope{ScopeEnqueue}
	registerDirect[pushInput, pushOutput](h, mux, &direct{g, pushRoute, enqueue, a.push}, "push-job", "Push a job", accepts[jobSchema](typeJSON), status(http.StatusAccepted))
	registerDirect[DestinationPath, batchOutput](h, mux, &direct{g, batchRoute, enqueue, a.pushBatch}, "push-batch", "Push up to 1,000 jobs", accepts[batchSchema](typeJSON), alsoNDJSON)
	a.sendRoutes(h, mux, g)
	register(h, http.MethodGet, one+"/jobs/{id}", "get-job", "See a job", a.getJob, needs(ScopeRead, ScopeEnqueue))
	a.jobRoutes(h, one)
	register(h, http.MethodGet, "/v1/destinations", "list-destinations", "List destinations", a.listDestinations, needs(ScopeRead))
	register(h, http.MethodGet, one, "get-destination", "See a destination", a.getDestination, needs(ScopeRead))
	register(h, http.MethodPut, one, "put-destination", "Make or change a destination", a.putDestination, accepts[map[string]any](typeJSON), needs(ScopeManage))
	register(h, http.MethodDelete, one, "delete-destination", "Delete a destination", a.deleteDestination, needs(ScopeManage),
		also("Its jobs go with it, also what was kept of finished and dead ones: looking for one answers destination_not_found."))
	register(h, http.MethodPost, one+"/pause", "pause-destination", "Stop sending", a.pause, accepts[reasonSchema](typeJSON), needs(ScopeOperate))
	register(h, http.MethodPost, one+"/resume", "resume-destination", "Send again", a.resume, accepts[reasonSchema](typeJSON), needs(ScopeOperate),
		also("Ends the operator's pause, not the contract's own. If its breaker is open, the next probe goes at once."))
	describeCodes(h)
	return errors.Join(serveOpenAPI(mux.ServeMux, h), serveDocs(mux.ServeMux))
}

// register adds an operation to huma with what its options say.
func register[I, O any](h huma.API, method, path, id, summary string, handle func(context.Context, *I) (*O, error), options ...option) {
	op := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Metadata: map[string]any{}}
	var after []func(*huma.Operation)
	for _, o := range options {
		if later := o(h, &op); later != nil {
			after = append(after, later)
		}
	}
	huma.Register(h, op, handle)
	described := operationAt(h, method, path)
	describeWaits(described)
	for _, later := range after {
		later(described)
	}
}
