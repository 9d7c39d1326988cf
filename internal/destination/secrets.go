package destination

import "tundish/internal/job"

// Bounds of what a PUT gives as secrets.
const (
	maxSecrets     = 64
	maxSecretBytes = 8 << 10
)

// takeSecrets takes the secrets out of a caller's contract: they are no part of
// what is written. No error repeats a value.
func takeSecrets(root *value, p *problems) map[string]string {
	if root.kind != dict || root.fields["secrets"] == nil {
		return nil
	}
	o := &object{p: p, v: root}
	v, names := o.entries("secrets", maxSecrets)
	delete(root.fields, "secrets")
	all := map[string]string{}
	for _, name := range names {
		field := v.fields[name]
		switch {
		case !ValidSecretName(name):
			p.invalid(field, "secrets: %s is not allowed as a name; give 1 to %d letters, digits, '.', '_' and '-'", quoted(name), maxNameBytes)
		case field.kind != text || field.text == "" || len(field.text) > maxSecretBytes:
			p.invalid(field, "secrets: %s: give text of 1 to %d bytes", name, maxSecretBytes)
		default:
			all[name] = field.text
		}
	}
	return all
}

// secretsAreUsed refuses secrets that the contract does not refer to: a name is
// misspelt, here or there.
func secretsAreUsed(c *Contract, secrets map[string]string) error {
	used := map[string]bool{}
	for _, name := range c.SealedNames() {
		used[name] = true
	}
	e := job.Errorf(job.CodeInvalid, "secrets that nothing refers to")
	for name := range secrets {
		if !used[name] {
			e.Fields = append(e.Fields, job.FieldError{Pointer: job.PointerTo("/secrets", name), Code: job.CodeInvalid,
				Detail: "secrets: nothing in the contract refers to ${secret:" + name + "}"})
		}
	}
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// SealedNames lists the secrets that are to be given through the API.
func (c *Contract) SealedNames() []string {
	var names []string
	for _, r := range c.References() {
		if r.Kind == Sealed {
			names = append(names, r.Name)
		}
	}
	return names
}
