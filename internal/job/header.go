package job

// HeaderMap is headers as documents write them: a text, or a list of texts
// where a name is repeated.
func HeaderMap(list []Header) map[string]any {
	all := make(map[string]any, len(list))
	for _, h := range list {
		switch had := all[h.Name].(type) {
		case nil:
			all[h.Name] = h.Value
		case string:
			all[h.Name] = []string{had, h.Value}
		case []string:
			all[h.Name] = append(had, h.Value)
		}
	}
	return all
}
