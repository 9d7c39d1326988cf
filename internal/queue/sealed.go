package queue

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// fieldSealed is the field of the conf hash that holds the sealed secrets of a
// contract, a JSON object of name → sealed. It is never part of an answer.
const fieldSealed = "sealed"

// sealedTries is how often a contract with secrets is applied again that others
// changed meanwhile.
const sealedTries = 5

// applyWithSecrets applies a contract with the secrets that came with it and
// those stored before that it still refers to.
func (s *Store) applyWithSecrets(ctx context.Context, r ApplyRequest) (verdict string, effective time.Duration, err error) {
	names := r.Contract.SealedNames()
	if len(names) == 0 && r.Source.Kind == kindFile {
		return s.apply(ctx, r) // a file can give none
	}
	asked := r.IfVersion
	for range sealedTries {
		stored, version, err := s.sealed(ctx, r.Name)
		if err != nil {
			return "", 0, err
		}
		if len(names) == 0 && len(stored) == 0 {
			return s.apply(ctx, r)
		}
		text, err := chooseSealed(names, stored, &r)
		if err != nil {
			return "", 0, err
		}
		if asked == 0 {
			r.IfVersion = version // what is stored must be what was read
		}
		verdict, effective, err = s.apply(ctx, r, fieldSealed, text)
		if err != nil || verdict != "version_mismatch" || asked != 0 || r.IfNone {
			return verdict, effective, err
		}
	}
	return verdict, effective, nil
}

// sealed reads the sealed secrets of a lane and the version they belong to; 0
// when there is no lane.
func (s *Store) sealed(ctx context.Context, lane string) (map[string]string, int64, error) {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return nil, 0, err
	}
	values, err := s.db.Client().HMGet(ctx, keys.Conf(), fieldSealed, "version").Result()
	if err != nil {
		return nil, 0, callerError(err)
	}
	p := parser{}
	version := int64(0)
	if p.text(values, 1) != "" {
		version = p.number(values, 1)
	}
	return readSealed(p.text(values, 0)), version, p.err
}

func readSealed(text string) map[string]string {
	var sealed map[string]string
	if text == "" || json.Unmarshal([]byte(text), &sealed) != nil {
		return nil // a damaged one: each secret is missing, and shown as such
	}
	return sealed
}

// chooseSealed is what is stored from now on. A contract of the API must have all
// it refers to; that of a file may get it later.
func chooseSealed(names []string, stored map[string]string, r *ApplyRequest) (string, error) {
	kept := map[string]string{}
	var missing []job.FieldError
	slices.Sort(names)
	for _, name := range names {
		sealed := r.Sealed[name]
		if sealed == "" {
			sealed = stored[name]
		}
		if sealed != "" {
			kept[name] = sealed
		} else {
			missing = append(missing, job.FieldError{Pointer: job.PointerTo("/secrets", name), Code: job.CodeInvalid,
				Detail: "secrets: " + destination.Reference{Kind: destination.Sealed, Name: name}.String() + " was never given; give it here"})
		}
	}
	if len(missing) > 0 && r.Source.Kind != kindFile {
		e := job.Errorf(job.CodeInvalid, "secrets are missing")
		e.Fields = missing
		return "", e
	}
	if len(kept) == 0 {
		return "", nil
	}
	text, err := json.Marshal(kept)
	return string(text), err
}
