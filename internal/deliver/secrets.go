package deliver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tundish/internal/destination"
)

// Secrets gives the values that references in contracts stand for.
type Secrets interface {
	// Value is what a reference of a contract stands for now. The error names
	// the reference and never a value.
	Value(c *destination.Contract, r destination.Reference) (string, error)
}

// NoSecrets is for a sender that was given none.
type NoSecrets struct{}

// Value implements Secrets: no reference stands for anything.
func (NoSecrets) Value(_ *destination.Contract, r destination.Reference) (string, error) {
	return "", fmt.Errorf("%s: references are not resolved here", r)
}

// equipment is what a contract's references come to for one attempt. It is made
// anew for each, so that a secret that was changed counts at once.
type equipment struct {
	headers []destination.Header
	sign    [][]byte // keys of signatures
	// authorization is the header of that name; empty: none of ours.
	authorization string
	oauth2        *credentials // nil: no token is needed
	identity      identity
	hide          hiding
}

// Check says why nothing can be sent under a contract here and now, such as a
// secret that is missing; nil when it can. No job is to blame for that.
func (s *Sender) Check(c *destination.Contract) error {
	e, err := s.equip(c)
	if err == nil {
		_, err = e.identity.config(nil)
	}
	return err
}

// equip resolves the references of a contract. The error tells of all that cannot be had.
func (s *Sender) equip(c *destination.Contract) (*equipment, error) {
	r := resolving{secrets: s.cfg.Secrets, contract: c}
	e := &equipment{headers: r.headers(c.Target.Headers), sign: r.signKeys(&c.Target.Sign), authorization: r.basic(c.Target.Auth.Basic)}
	e.identity = r.identity(&c.Target.TLS)
	e.oauth2 = r.oauth2(c.Target.Auth.OAuth2, e.identity)
	if len(r.errs) > 0 {
		return nil, errors.New(strings.Join(r.errs, "; ")) // one line, where it is shown
	}
	if keeps(&c.Target.Keep) {
		e.hide = r.hide
		e.hide.add(e.authorization, "(credentials)")
	}
	return e, nil
}

// resolving collects what cannot be resolved.
type resolving struct {
	secrets  Secrets
	contract *destination.Contract
	errs     []string
	hide     hiding
}

func (r *resolving) failed(err error) { r.errs = append(r.errs, err.Error()) }

// headers resolves fixed headers. Those of the contract stay as they are: others read it.
func (r *resolving) headers(list []destination.Header) []destination.Header {
	own := false
	for i, h := range list {
		value, changed := r.text(h.Value)
		if !changed {
			continue
		}
		if err := validField(h.Name, value); err != nil {
			r.failed(fmt.Errorf("headers: %w", err))
		}
		if !own {
			own, list = true, slices.Clone(list)
		}
		list[i].Value = value
	}
	return list
}

// text puts values in the place of references, and says whether there were any
// and all could be had.
func (r *resolving) text(s string) (value string, changed bool) {
	value, err := destination.Expand(s, func(ref destination.Reference) (string, error) {
		changed = true
		v, err := r.secrets.Value(r.contract, ref)
		r.hide.add(v, ref.String())
		return v, err
	})
	if err != nil {
		r.failed(err)
		return "", false
	}
	return value, changed
}
