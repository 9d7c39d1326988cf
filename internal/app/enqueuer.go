package app

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tundish/internal/api"
	"tundish/internal/background"
	"tundish/internal/destination"
	"tundish/internal/queue"
	"tundish/internal/redisdb"
)

// EnqueuerConfig holds the flags of an enqueuer.
type EnqueuerConfig struct {
	Common
	Listen              string `default:"127.0.0.1:8080" help:"Address of the API."`
	AdminListen         string `name:"admin-listen" default:"127.0.0.1:8081" help:"Address of /metrics, /healthz and /readyz."`
	Destinations        string `help:"File or folder of destinations; re-read when it changes."`
	Keys                string `help:"File with the producers' keys; re-read when it changes."`
	InsecureNoAuth      bool   `name:"insecure-no-auth" help:"Listen beyond loopback without keys."`
	TLSCert             string `name:"tls-cert" help:"Certificate of the API, PEM."`
	TLSKey              string `name:"tls-key" help:"Key of the certificate, PEM."`
	MetricsDestinations string `name:"metrics-destinations" default:"200" help:"Destinations with a label of their own in metrics, 1 to 10000."`

	metricsDestinations int
	file                *destination.File
	keys                *api.Keys
	keysSum             [sha256.Size]byte
}

// Validate reports every bad value at once, the files included.
func (c *EnqueuerConfig) Validate() error {
	var p problems
	c.validate(&p)
	loopback := p.address("--listen", c.Listen)
	p.address("--admin-listen", c.AdminListen)
	p.apart("--listen", c.Listen, "--admin-listen", c.AdminListen)
	if !loopback && c.Keys == "" && !c.InsecureNoAuth {
		p.add("--listen: %s can be reached from other machines; give --keys FILE, or --insecure-no-auth if everybody who can reach it may push", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		p.add("--tls-cert and --tls-key belong together")
	} else if c.TLSCert != "" {
		_, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		p.check(err, "--tls-cert, --tls-key")
	}
	c.metricsDestinations = p.whole("--metrics-destinations", c.MetricsDestinations, 1, 10_000)
	if c.Destinations != "" {
		var err error
		c.file, err = destination.ParsePath(c.Destinations)
		p.check(err, "--destinations")
	}
	if c.Keys != "" {
		var err error
		c.keys, c.keysSum, err = loadKeys(c.Keys)
		p.check(err, "--keys")
	}
	return p.err()
}

// Enqueuer is the door.
type Enqueuer struct {
	cfg   EnqueuerConfig
	log   *slog.Logger
	clean cleanups
	db    *redisdb.DB
	fit   *fitness
	store *queue.Store
	admin *admin
	addr  string
}

// NewEnqueuer makes an enqueuer that has not started.
func NewEnqueuer(cfg EnqueuerConfig, log *slog.Logger) (*Enqueuer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Enqueuer{cfg: cfg, log: log}, nil
}

// Start connects, applies the file and listens. When it fails, nothing is left running.
func (e *Enqueuer) Start(ctx context.Context) error {
	if err := e.start(ctx); err != nil {
		e.clean.run()
		return err
	}
	return nil
}

func (e *Enqueuer) start(ctx context.Context) error {
	reg := newRegistry("enqueuer")
	var err error
	if e.admin, err = startAdmin(ctx, e.cfg.AdminListen, e.cfg.Pprof, reg, e.log); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	e.clean.add("admin", e.admin.stop)
	if e.db, e.fit, err = open(ctx, e.cfg.Common, reg, e.log); err != nil {
		return err
	}
	e.clean.add("redis", func() { _ = e.db.Close() })
	e.fit.start()
	e.clean.add("fitness", e.fit.stop)
	e.store = queue.New(e.db)
	e.store.Tell(newCounts(reg, e.log))
	files, err := e.follow(ctx, newReloads(reg))
	if err != nil {
		return err
	}
	door, err := api.New(api.Config{Store: e.store, Keys: e.cfg.keys, OwnNames: e.cfg.keys == nil && !e.cfg.InsecureNoAuth, Named: files.holds,
		Seal: e.cfg.seal(), Begin: background.NewPlanner(e.db.Keys().Namespace(), e.db.Client()).Begin,
		Version: Version, Log: e.log, Registerer: reg, MetricsDestinations: e.cfg.metricsDestinations})
	if err != nil {
		return err
	}
	e.clean.add("door", door.Close)
	reg.MustRegister(newFleet(surveyed{e.store, door.KeepSeries}, e.cfg.metricsDestinations))
	if err := e.listen(ctx, door.Handler()); err != nil {
		return err
	}
	e.clean.add("waits", door.EndWaits) // the first to go: the server waits for them
	e.admin.setReady(e.ready)
	e.log.Info("enqueuer listens", "addr", e.addr, "admin", e.admin.addr, "version", Version)
	return nil
}

// follow applies the files and goes on to do so when they change.
func (e *Enqueuer) follow(ctx context.Context, reloads *prometheus.GaugeVec) (*files, error) {
	files := newFiles(e.cfg.Destinations, e.cfg.file, e.store, e.log, reloads)
	if err := files.start(ctx); err != nil {
		return nil, err
	}
	e.clean.add("files", files.stop)
	if e.cfg.keys != nil {
		keys := newKeysFile(e.cfg.Keys, e.cfg.keys, e.cfg.keysSum, e.log, reloads)
		keys.start()
		e.clean.add("keys", keys.stop)
	}
	return files, nil
}

func (e *Enqueuer) listen(ctx context.Context, handler http.Handler) error {
	server, addr, done, err := serve(ctx, e.cfg.Listen, handler, e.log, e.cfg.TLSCert, e.cfg.TLSKey)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	e.addr = addr
	e.clean.add("api", func() { shutdown(server, done) })
	return nil
}

// ready lists why pushes cannot be taken now.
func (e *Enqueuer) ready() (reasons, notes []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := e.fit.takesWrites(ctx); err != nil {
		reasons = append(reasons, "redis takes no writes: "+redisdb.Kind(err))
	}
	return append(reasons, e.fit.reasons()...), nil
}

// Stop ends the door: open requests are answered, then everything closes.
func (e *Enqueuer) Stop() { e.clean.run() }

// Addr is where the API listens.
func (e *Enqueuer) Addr() string { return e.addr }

// AdminAddr is where the admin pages are served.
func (e *Enqueuer) AdminAddr() string { return e.admin.addr }
