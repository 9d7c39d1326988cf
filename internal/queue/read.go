package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/redisdb"
)

// lane is a lane as the read script shows it.
type lane struct {
	status      string
	now         time.Time // Redis TIME
	adj         int64     // µs
	conf, state map[string]string
	counts      []string
	job         []any
}

func (s *Store) read(ctx context.Context, name string, id job.ID) (*lane, error) {
	reply, err := s.run(ctx, readScript, name, []any{name, string(id)})
	if err != nil {
		return nil, err
	}
	p := parser{}
	list := p.list(reply)
	l := &lane{status: p.text(list, 0)}
	if l.status == "no_lane" {
		return nil, noLane(name)
	}
	l.now, l.adj = time.UnixMicro(p.number(list, 1)).UTC(), p.number(list, 2)
	l.conf, l.state = pairs(p.texts(p.at(list, 3))), pairs(p.texts(p.at(list, 4)))
	l.counts, l.job = p.texts(p.at(list, 5)), p.list(p.at(list, 6))
	return l, p.err
}

func pairs(flat []string) map[string]string {
	m := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i]] = flat[i+1]
	}
	return m
}

func number(m map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(m[name], 10, 64) // absent or damaged counts as nothing
	return n
}

// Destination reads a destination as it stands now.
func (s *Store) Destination(ctx context.Context, name string) (*Destination, error) {
	l, err := s.read(ctx, name, "")
	if err != nil {
		return nil, err
	}
	return l.destination(name), nil
}

func (l *lane) destination(name string) *Destination {
	d := &Destination{Name: name, Version: number(l.conf, "version"), Generation: number(l.conf, "gen"), Written: []byte(l.conf["doc"]),
		Source: parseSource(l.conf["source"])}
	contract, _, err := destination.ParseContract(name, d.Written)
	switch {
	case err != nil:
		d.Faulty = err.Error()
	case l.status != "ok":
		d.Faulty = "the fields that scripts read are damaged"
	default:
		d.Contract = contract
	}
	d.Live = l.live(d)
	return d
}

func parseSource(text string) Source {
	f := strings.Split(text, "|")
	if len(f) != 3 {
		return Source{}
	}
	revision, _ := strconv.ParseInt(f[2], 10, 64) // written by apply
	return Source{Kind: f[0], Set: f[1], Revision: revision}
}

func (l *lane) count(i int) int64 {
	if i >= len(l.counts) {
		return 0
	}
	n, _ := strconv.ParseInt(l.counts[i], 10, 64) // the script formats it
	return n
}

func (l *lane) live(d *Destination) Live {
	v := Live{State: StateRunning, Depth: l.count(0), Ready: l.count(1), Waiting: l.count(2), Leased: l.count(3), Unknown: number(l.state, "unknown"),
		SizeBytes: number(l.state, "bytes")}
	v.Dead = max(0, l.count(4)-v.Unknown)
	if pushed, err := strconv.ParseInt(l.counts[7], 10, 64); err == nil {
		v.OldestAge = max(0, l.now.Sub(time.UnixMicro(pushed-l.adj)))
	}
	if d.Contract != nil {
		v.RatePerSecond = d.Contract.Rate() * l.adapted(d.Contract.Adaptive)
		if d.Contract.Paused {
			v.StateReasons = append(v.StateReasons, "paused by the contract")
		}
	}
	if v.RatePerSecond > 0 {
		v.Drain = time.Duration(float64(v.Depth) / v.RatePerSecond * float64(time.Second))
	}
	if text := l.state["opaused"]; text != "" {
		var mark pauseMark
		_ = json.Unmarshal([]byte(text), &mark) // a damaged mark still pauses
		v.StateReasons = append(v.StateReasons, strings.TrimSuffix("paused by an operator: "+mark.Reason, ": "))
	}
	if len(v.StateReasons) > 0 {
		v.State = statePaused
	} else if d.Contract != nil {
		v.State, v.StateReasons = l.held(d.Contract.Breaker)
	}
	if why := l.unfit(); why != "" {
		v.State, v.StateReasons = faultyState, append(v.StateReasons, why)
	}
	if d.Faulty != "" {
		v.State, v.StateReasons = faultyState, []string{d.Faulty}
	}
	return v
}

// adapted is the share of its limits that the destination is sent now.
func (l *lane) adapted(a destination.Adaptive) float64 {
	share, _, _ := strings.Cut(l.state["adapt"], "|")
	n, err := strconv.ParseInt(share, 10, 64)
	if err != nil || !a.Enabled {
		return 1
	}
	return float64(min(max(n, number(l.conf, "adaptive")), 1e6)) / 1e6
}

// held says whether a breaker or a cool-down keeps the lane from sending, as policy.lua does.
func (l *lane) held(b destination.Breaker) (state string, reasons []string) {
	now := l.now.UnixMicro() + l.adj
	left := func(until int64) string {
		return (time.Duration(until-now) * time.Microsecond).Round(time.Millisecond).String()
	}
	f := strings.Split(l.state["breaker"], "|")
	if len(f) == 5 && b.Failures > 0 && f[0] != "closed" {
		until, _ := strconv.ParseInt(f[2], 10, 64) // the script formats it
		switch {
		case f[0] == "probing":
			return stateBreaker, []string{l.failed() + "; one job probes it"}
		case until > now:
			return stateBreaker, []string{l.failed() + "; it is probed in " + left(until)}
		}
		return stateBreaker, []string{l.failed() + "; the next job probes it"}
	}
	if until := number(l.state, "cool"); until > now {
		return stateCooling, []string{"it asked to wait; sending goes on in " + left(until)}
	}
	return StateRunning, nil
}

// failed says with what outcome the breaker opened, where that was kept.
func (l *lane) failed() string {
	if why := l.state["failing"]; why != "" {
		return "it failed (" + why + ")"
	}
	return "it failed"
}

// Destinations lists destinations by name, behind after, with the prefix.
func (s *Store) Destinations(ctx context.Context, prefix, after string, limit int) ([]*Destination, string, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, "", err
	}
	var list []*Destination
	for _, name := range names {
		if name <= after || !strings.HasPrefix(name, prefix) {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Name, nil
		}
		d, err := s.Destination(ctx, name)
		if job.CodeOf(err) == job.CodeDestinationNotFound && err != nil {
			continue // deleted meanwhile
		}
		if job.CodeOf(err) == job.CodeDestinationFaulty {
			d, err = &Destination{Name: name, Faulty: "its data in Redis is damaged", Live: Live{State: "faulty", StateReasons: []string{"its data in Redis is damaged"}}}, nil
		}
		if err != nil {
			return nil, "", err
		}
		list = append(list, d)
	}
	return list, "", nil
}

// Names lists the destinations of all shards, sorted.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	var names []string
	for shard := range redisdb.Shards {
		_, _, key := s.db.Keys().Shard(shard)
		lanes, err := s.db.Client().HGetAll(ctx, key).Result()
		if err != nil {
			return nil, callerError(err)
		}
		for name, text := range lanes {
			if f := strings.Split(text, "|"); len(f) == 3 && f[1] != "0" {
				names = append(names, name)
			}
		}
	}
	sort.Strings(names)
	return names, nil
}

// Job reads one job.
func (s *Store) Job(ctx context.Context, name string, id job.ID) (*Status, error) {
	l, err := s.read(ctx, name, id)
	if err != nil {
		return nil, err
	}
	missing := job.Errorf(job.CodeJobNotFound, "there is no job %q of %q", id, name)
	if len(l.job) == 0 {
		return nil, missing
	}
	p := parser{}
	st := &Status{ID: id, State: job.State(p.text(l.job, 0))}
	if st.State.Ended() {
		err := st.ended(name, p.text(l.job, 4), Decode)
		if keep := time.Duration(number(l.conf, "keep_done")) * time.Microsecond; st.State != job.Dead && st.State != job.Unknown && l.now.Sub(st.FinishedAt) > keep {
			return nil, missing
		}
		return st, err
	}
	st.Position = p.number(l.job, 5)
	st.WaitingFor = p.text(l.job, 7)
	if at := p.text(l.job, 6); at != "" {
		st.EstimatedSendAt = time.UnixMicro(p.number(l.job, 6)).UTC()
	}
	st.waitsForFitness(l)
	if p.err != nil {
		return nil, p.err
	}
	return st, st.live(name, p.text(l.job, 1), p.text(l.job, 2), Decode)
}

// decoder is Decode or DecodeHead.
type decoder func(lane string, id job.ID, envelope []byte) (*job.Job, error)

func (st *Status) live(name, envelope, tries string, decode decoder) error {
	st.mark = "0"
	j, err := decode(name, st.ID, []byte(envelope))
	if err != nil {
		return fmt.Errorf("job %s: %w", st.ID, err)
	}
	st.Job = j
	note := FinalNote(j, nil)
	if front, history, ok := strings.Cut(tries, "\x00"); ok {
		known := DecodeNote([]byte(history))
		note.carry(&known)
		if f := strings.SplitN(front, "|", 3); len(f) == 3 {
			st.mark = f[1]
			st.sent, _ = strconv.Atoi(f[1]) // the script formats it
		}
	}
	st.fill(note)
	return nil
}

// ended reads a finished record, "state|µs|outcome|note", or a dead one,
// "state|µs|reason|length of note|note envelope".
func (st *Status) ended(name, text string, decode decoder) error {
	f := strings.SplitN(text, "|", 4)
	if len(f) < 4 {
		return fmt.Errorf("job %s: its end cannot be read", st.ID)
	}
	at, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return fmt.Errorf("job %s: its end cannot be read: %w", st.ID, err)
	}
	st.FinishedAt, st.Outcome, st.mark = time.UnixMicro(at).UTC(), f[2], f[1]
	note, envelope := f[3], ""
	if st.State == job.Dead || st.State == job.Unknown {
		length, rest, _ := strings.Cut(f[3], "|")
		n, err := strconv.Atoi(length)
		if err != nil || n > len(rest) {
			return fmt.Errorf("job %s: its end cannot be read", st.ID)
		}
		note, envelope = rest[:n], rest[n:]
	}
	full := DecodeNote([]byte(note))
	if j, err := decode(name, st.ID, []byte(envelope)); err == nil {
		st.Job = j
		known := full
		full = *FinalNote(j, nil)
		full.carry(&known)
	}
	st.fill(&full)
	if n := len(st.Attempts); n > 0 {
		st.sent = st.Attempts[n-1].Number
	}
	if st.Outcome == reasonCrashed {
		st.sent += maxCrashes // requests of which nobody could tell
	}
	return nil
}

func (st *Status) fill(n *Note) {
	st.Attempts, st.Response, st.Producer, st.Tenant, st.Priority = n.Attempts, n.Response, n.Producer, n.Tenant, n.Priority
	st.CreatedAt, st.DeliverAt, st.ExpiresAt, st.Metadata = n.Created, n.Deliver, n.Expires, n.Metadata
	st.Redrives, st.Reason = n.Redrives, n.Reason
	if st.CreatedAt.IsZero() {
		st.CreatedAt = st.ID.Time() // a job that a script ended has no other record of it
	}
	if len(n.Attempts) > 0 && st.Outcome == "" {
		st.Outcome = string(n.Attempts[len(n.Attempts)-1].Outcome)
	}
}
