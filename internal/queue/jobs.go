package queue

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
)

const (
	// listChunk is how many jobs one call of the list script reads.
	listChunk = 50
	// listScan is how many jobs one page looks at, so that a rare filter keeps no caller waiting.
	listScan = 2000
	// maxPlace bounds a place in an index: of ready jobs it holds the tenant.
	maxPlace = 300
)

// Filter chooses jobs; what is empty chooses all.
type Filter struct {
	States       []job.State `json:"states,omitempty"`
	Outcome      string      `json:"outcome,omitempty"`
	Tenant       string      `json:"tenant,omitempty"`
	Producer     string      `json:"producer,omitempty"`
	CreatedAfter time.Time   `json:"created_after,omitzero"`
}

func (f *Filter) takes(st *Status) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, st.State)) &&
		(f.Outcome == "" || f.Outcome == st.Outcome) &&
		(f.Tenant == "" || f.Tenant == st.Tenant) &&
		(f.Producer == "" || f.Producer == st.Producer) &&
		(f.CreatedAfter.IsZero() || st.CreatedAt.After(f.CreatedAfter))
}

// index is a place where jobs of some states are kept in an order of its own.
type index struct {
	name   string
	states []job.State
}

// indexes in the order in which jobs are listed: ready ones by tenant and turn,
// the others by the time at which something happens or has happened to them.
var indexes = []index{
	{"leased", []job.State{job.Leased}},
	{"ready", []job.State{job.Ready}},
	{"waiting", []job.State{job.Waiting, job.Scheduled}},
	{"dead", []job.State{job.Dead, job.Unknown}},
	{"done", []job.State{job.Delivered, job.Expired, job.Cancelled}},
}

// ends says whether the jobs of an index have ended.
func (i index) ends() bool { return i.states[0].Ended() }

// indexesOf are those that may hold jobs of the states.
func indexesOf(states []job.State) []index {
	var list []index
	for _, i := range indexes {
		if len(states) == 0 || slices.ContainsFunc(i.states, func(s job.State) bool { return slices.Contains(states, s) }) {
			list = append(list, i)
		}
	}
	return list
}

// place is where a list goes on: behind a job of an index, or at its start.
type place struct {
	index string
	after string // of ready a member, else a score
	id    string
}

func (c place) String() string { return c.index + "|" + c.id + "|" + c.after }

// parsePlace reads what String wrote; callers bring it, so it is checked.
func parsePlace(text string) (place, bool) {
	f := strings.SplitN(text, "|", 3)
	if len(f) != 3 || len(f[2]) > maxPlace {
		return place{}, false
	}
	c := place{f[0], f[2], f[1]}
	known := slices.ContainsFunc(indexes, func(i index) bool { return i.name == c.index })
	if c.after == "" {
		return c, known && c.id == ""
	}
	if _, err := job.ParseID(c.id); err != nil {
		return place{}, false
	}
	if _, err := strconv.ParseInt(c.after, 10, 64); err != nil && c.index != "ready" {
		return place{}, false
	}
	return c, known
}

// Query asks for one page of jobs.
type Query struct {
	Filter

	Back   bool   // the other way round
	Cursor string // Next of the page before
	Limit  int
}

// Page is a part of a list. It may hold fewer jobs than asked for, even none,
// where others follow.
type Page struct {
	Jobs []*Status
	Next string // empty: there are no more
}

// Jobs lists jobs in the order of their indexes. A job that stays where it is
// is listed once, whatever comes and goes around it.
func (s *Store) Jobs(ctx context.Context, lane string, q Query) (*Page, error) {
	list := indexesOf(q.States)
	if q.Back {
		slices.Reverse(list)
	}
	at := place{index: list[0].name}
	if q.Cursor != "" {
		var ok bool
		if at, ok = parsePlace(q.Cursor); !ok {
			return nil, job.Errorf(job.CodeInvalid, "the cursor is not one of this list")
		}
	}
	from := slices.IndexFunc(list, func(i index) bool { return i.name == at.index })
	if from < 0 {
		return nil, job.Errorf(job.CodeInvalid, "the cursor is of a list of other states")
	}
	page, scanned := &Page{}, 0
	for n, i := range list[from:] {
		if n > 0 {
			at = place{index: i.name}
		}
		for more := true; more; {
			if len(page.Jobs) == q.Limit || scanned >= listScan {
				page.Next = at.String()
				return page, nil
			}
			c, err := s.chunk(ctx, lane, i, at, chunkOptions{back: q.Back, until: -1, n: listChunk})
			if err != nil {
				return nil, err
			}
			more = c.more
			for _, e := range c.entries {
				if len(page.Jobs) == q.Limit {
					more = true // and the place is that of the last one taken
					break
				}
				at, scanned = e.place, scanned+1
				if q.takes(e.status) && !e.outlived {
					page.Jobs = append(page.Jobs, e.status)
				}
			}
		}
	}
	return page, nil
}

type chunkOptions struct {
	back  bool
	until int64 // score, -1: none
	n     int
}

// chunk is what one call of the list script reads.
type chunk struct {
	entries []entry
	more    bool
}

type entry struct {
	status   *Status
	place    place
	outlived bool // kept, and not to be shown any longer
}

func (s *Store) chunk(ctx context.Context, lane string, i index, at place, o chunkOptions) (*chunk, error) {
	reply, err := s.run(ctx, listScript, lane, []any{lane, i.name, flag(o.back), min(o.n, listChunk), at.after, at.id, o.until})
	if err != nil {
		return nil, err
	}
	p := parser{}
	list := p.list(reply)
	if p.text(list, 0) == "no_lane" {
		return nil, noLane(lane)
	}
	now, adj, c := p.number(list, 1), p.number(list, 2), &chunk{more: p.number(list, 3) == 1}
	for _, item := range p.list(p.at(list, 4)) {
		c.entries = append(c.entries, p.entry(lane, i, item, now, adj))
	}
	return c, p.err
}

// entry reads one listed job. What cannot be read of it stays empty: it is there all the same.
func (p *parser) entry(lane string, i index, item any, now, adj int64) entry {
	l := p.list(item)
	st := &Status{ID: job.ID(p.text(l, 0)), State: i.states[0]}
	e := entry{status: st, place: place{i.name, p.text(l, 1), string(st.ID)}}
	text, tries := p.text(l, 2), p.text(l, 3)
	if i.ends() {
		if state, _, ok := strings.Cut(text, "|"); ok {
			st.State = job.State(state)
		}
		_ = st.ended(lane, text, DecodeHead)
		e.outlived = i.name == "done" && p.number(l, 1) <= now
	} else {
		_ = st.live(lane, text, tries, DecodeHead)
		st.waits(i, e.place, tries, adj)
	}
	if st.CreatedAt.IsZero() {
		st.CreatedAt = st.ID.Time()
	}
	return e
}

// waits tells of a job that is not ready when it goes on.
func (st *Status) waits(i index, at place, tries string, adj int64) {
	due, _ := strconv.ParseInt(at.after, 10, 64) // of a ready job it is none
	switch f := strings.SplitN(tries, "|", 7); {
	case i.name == "waiting":
		st.WaitingFor = "back_off"
		if st.sent == 0 {
			st.State, st.WaitingFor = job.Scheduled, "its_time"
		}
		st.EstimatedSendAt = time.UnixMicro(due - adj).UTC()
	case i.name == "leased" && len(f) == 7:
		if slot, err := strconv.ParseInt(f[5], 10, 64); err == nil {
			st.EstimatedSendAt = time.UnixMicro(slot - adj).UTC()
		}
	}
}
