package queue

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tundish/internal/job"
)

// act does what a person does, with any job in any state, and often twice.
func (m *model) act() {
	ids := slices.Sorted(maps.Keys(m.jobs))
	if len(ids) == 0 {
		return
	}
	id := ids[m.rng.IntN(len(ids))]
	if end := m.in([]job.State{job.Dead, job.Unknown}[m.rng.IntN(2)]); len(end) > 0 && m.rng.IntN(3) > 0 {
		id = end[m.rng.IntN(len(end))].src.ID
	}
	deed := []func(*modelJob) (string, job.Code, error){m.cancel, m.redrive, m.resolve, m.erase}[m.rng.IntN(4)]
	for range 1 + m.rng.IntN(2) {
		j := m.jobs[id]
		if j == nil {
			return
		}
		m.sync()
		before := *j
		what, want, err := deed(j)
		m.note("%s %s, which is %s: %v", what, id, before.state, err)
		got := job.Code("")
		if err != nil {
			got = job.CodeOf(err)
		}
		if got != want && !m.lapsed(&before, err) {
			m.fail("%s of %s, which was %s: %v, want %q", what, id, before.state, err, want)
		}
	}
}

// lapsed lets be unknown what is no longer kept.
func (m *model) lapsed(j *modelJob, err error) bool {
	return !j.state.Live() && job.CodeOf(err) == job.CodeJobNotFound && errors.As(err, new(*job.Error)) &&
		(j.trimmed || m.raw-j.endedAt >= minDoneKept.Microseconds() || m.outlived(m.jobs[j.src.ID], m.b.dump().place(string(j.src.ID))))
}

func (m *model) cancel(j *modelJob) (what string, want job.Code, err error) {
	_, err = m.b.s.Cancel(context.Background(), m.b.lane, j.src.ID)
	switch {
	case j.state == job.Leased:
		return "cancel", job.CodeJobInFlight, err
	case j.state.Live():
		m.end(j, job.Cancelled)
	case j.state != job.Cancelled:
		return "cancel", job.CodeJobFinished, err
	}
	return "cancel", "", err
}

func (m *model) redrive(j *modelJob) (what string, want job.Code, err error) {
	_, err = m.b.s.Redrive(context.Background(), m.b.lane, j.src.ID)
	return "redrive", m.redriven(j, job.CodeJobFinished, err), err
}

// redriven moves a dead job of the model, if it may be, and says what must be told.
func (m *model) redriven(j *modelJob, other job.Code, err error) job.Code {
	switch {
	case j.state.Live():
		return ""
	case j.state != job.Dead && j.state != job.Unknown:
		return other
	case j.expiry > 0 && j.expiry <= m.raw+50_000 && err != nil: // it expires about now
		return job.CodeJobFinished
	case int64(j.size) > m.cfg.maxBytes:
		return job.CodeTooLarge
	case int64(m.live()) >= m.cfg.capacity:
		return job.CodeQueueFull
	case m.bytes()+int64(j.size) > m.cfg.maxBytes:
		return job.CodeQueueBytesFull
	case err != nil:
		return ""
	}
	env := m.b.dump().jobs[string(j.src.ID)]
	j.state, j.order, j.token, j.lost, j.tried = job.Ready, env[2:16], "", "", true
	j.used, j.crashes, j.first, j.started = 0, 0, 0, false
	st, err := m.b.s.Job(context.Background(), m.b.lane, j.src.ID)
	if err != nil {
		m.fail("%v", err)
	}
	if j.redrives++; st.Redrives != j.redrives {
		m.fail("%s was redriven %d times, and tells %d", j.src.ID, j.redrives, st.Redrives)
	}
	j.sent = st.sent
	return ""
}

func (m *model) resolve(j *modelJob) (what string, want job.Code, err error) {
	delivered := m.rng.IntN(2) == 0
	_, err = m.b.s.Resolve(context.Background(), m.b.lane, j.src.ID, delivered, "seen")
	switch {
	case j.state != job.Unknown:
		if delivered && j.resolved && j.state == job.Delivered || !delivered && j.redrives > 0 && j.state.Live() {
			return "resolve", "", err
		}
		return "resolve", job.CodeJobNotUnknown, err
	case delivered:
		if err == nil {
			m.end(j, job.Delivered)
			j.resolved = true
		}
		return "resolve as delivered", "", err
	}
	return "resolve to retry", m.redriven(j, "", err), err
}

func (m *model) erase(j *modelJob) (what string, want job.Code, err error) {
	_, err = m.b.s.Erase(context.Background(), m.b.lane, j.src.ID)
	if j.state.Live() {
		return "erase", job.CodeJobInFlight, err
	}
	if err == nil {
		if j.state == job.Dead || j.state == job.Unknown { // its key begins the rest of its life
			j.keyEnd = m.raw + m.cfg.keep
		}
		j.trimmed = true
	}
	return "erase", "", err
}
