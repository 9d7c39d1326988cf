package api

// seal seals the secrets of a PUT; no more is known of them from then on.
func (a *API) seal(destination string, secrets map[string]string) (map[string]string, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	if a.cfg.Seal == nil {
		var f fieldErrors
		f.bad("/secrets", "this enqueuer cannot seal secrets: start it with --seal-keys, or use ${env:NAME} or ${file:/absolute/path}")
		return nil, invalid(f)
	}
	sealed := make(map[string]string, len(secrets))
	for name, value := range secrets {
		sealed[name] = a.cfg.Seal(destination, name, value)
	}
	return sealed, nil
}
