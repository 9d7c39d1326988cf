package cli

import (
	"bytes"
	"fmt"
)

// result is the answer to one job of a batch.
type result struct {
	Line     int64  `json:"line"` // ours: where the job stands in the file
	Status   int    `json:"status"`
	ID       string `json:"id,omitempty"`
	State    string `json:"state,omitempty"`
	Replayed *bool  `json:"replayed,omitempty"`

	Code         string         `json:"code,omitempty"`
	Detail       string         `json:"detail,omitempty"`
	RetryAfterMS int64          `json:"retry_after_ms,omitempty"`
	Errors       []problemField `json:"errors,omitempty"`
}

// refuse counts a job that will never be taken and says why.
func (f *filePush) refuse(it *item, r result) error {
	f.tally.refused++
	f.show.refused("%s:%d: %s", f.file, it.line, problemLine(fmt.Sprintf("%d %s", r.Status, r.Code), r.Detail, r.Errors))
	return f.emit(it, r)
}

// emit writes what became of a job: one line of JSON, one item of a YAML list,
// the id, or nothing (the table is the summary at the end).
func (f *filePush) emit(it *item, r result) error {
	r.Line = it.line
	switch f.s.flags.Output {
	case formJSON:
		return f.s.write(append(compact(r), '\n'))
	case formYAML:
		text, err := toYAML(compact([]result{r}))
		if err != nil {
			return err
		}
		return f.s.write(text)
	case formName:
		if r.ID == "" {
			return nil
		}
		return f.s.write([]byte(plain(r.ID) + "\n"))
	}
	return nil
}

// summary ends the table form.
func (f *filePush) summary() error {
	if f.s.flags.Output != formTable {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d accepted", f.tally.accepted)
	if f.tally.replayed > 0 {
		fmt.Fprintf(&b, " (%d of them were there before)", f.tally.replayed)
	}
	fmt.Fprintf(&b, ", %d refused\n", f.tally.refused)
	return f.s.write(b.Bytes())
}

// stopped says where to go on: all before that line are settled.
func (f *filePush) stopped(err error) error {
	from, _ := f.settled()
	code := exitCode(err)
	if code == exitUsage {
		code = exitFailed // the command line was fine
	}
	return &failure{code, fmt.Sprintf("%v, after %d accepted jobs\nto go on: tundish push %s --file %s --from-line %d --run %s",
		err, f.tally.accepted, f.dest, f.file, from, f.id)}
}
