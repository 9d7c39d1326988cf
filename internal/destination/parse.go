package destination

import "tundish/internal/job"

// ParseContract reads one contract from JSON: the body of a PUT, or a contract
// as stored. written is the contract as given, with its name, in canonical
// JSON; parsing that again gives an equal contract. The error is a *job.Error
// with every problem and its JSON pointer.
//
// A class is only a name here: what it holds must have been merged before.
// Who takes contracts from callers uses ParseBody.
func ParseContract(name string, doc []byte) (c *Contract, written []byte, err error) {
	p := newProblems()
	root, err := readJSON(doc, p)
	if err != nil {
		return nil, nil, err
	}
	return parseTree(name, root, p)
}

// ParseBody is ParseContract for a caller's contract: a class is refused,
// because there is none to merge, and the secrets that came with it are not in
// what is written.
func ParseBody(name string, doc []byte) (c *Contract, written []byte, secrets map[string]string, err error) {
	p := newProblems()
	root, err := readJSON(doc, p)
	if err != nil {
		return nil, nil, nil, err
	}
	secrets = takeSecrets(root, p)
	if class := root.find("class"); class != nil {
		p.notSupported(class, "class: is supported in files only; give the fields themselves")
	}
	c, written, err = parseTree(name, root, p)
	if err == nil {
		err = secretsAreUsed(c, secrets)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return c, written, secrets, nil
}

func parseTree(name string, root *value, p *problems) (*Contract, []byte, error) {
	if root.kind == dict {
		setName(name, root, p)
	}
	c := decode(root, p, complete)
	if err := p.err(); err != nil {
		return nil, nil, err
	}
	written, err := write(root)
	if err != nil {
		return nil, nil, err
	}
	return c, written, nil
}

// setName puts the name by which a contract is addressed into it.
func setName(name string, root *value, p *problems) {
	given := root.fields["name"]
	if given != nil && given.kind == text && given.text != name {
		p.invalid(given, "name: %s is not the destination addressed, %s", quoted(given.text), quoted(name))
		return
	}
	if given == nil {
		v := root.child("name", text)
		v.text = name
		root.fields["name"] = v
	}
}

// write is the contract as written in canonical JSON, within the bound that it
// must have to be read again.
func write(root *value) ([]byte, error) {
	written, err := root.canonical()
	if err != nil {
		return nil, job.Errorf(job.CodeInvalid, "the contract cannot be written as JSON")
	}
	if len(written) > maxContractBytes {
		return nil, tooLarge("the contract", maxContractBytes)
	}
	return written, nil
}
