package destination

import "strings"

// KeepResponse says what of the destination's answer is kept with a job's result.
type KeepResponse struct {
	Body    int64    // bytes of the body at most
	Headers []string // by name
}

const (
	maxKeptBody    = 64 * kib
	maxKeptHeaders = 32
)

func keepResponse(o *object) KeepResponse {
	o = o.section("keep_response")
	defer o.close()
	k := KeepResponse{Body: quantity(o, sizes, "body", 0, 0, maxKeptBody)}
	seen := map[string]bool{}
	for _, item := range o.items("headers", maxKeptHeaders) {
		lower := strings.ToLower(item.text)
		switch {
		case item.kind != text || !token(item.text) || len(item.text) > maxHeaderNameBytes:
			o.p.invalid(item, "%s: not the name of a header", item.label())
		case lower == "set-cookie":
			o.p.invalid(item, "%s: Set-Cookie holds secrets and is not kept", item.label())
		case seen[lower]:
			o.p.invalid(item, "%s: %s is given twice (the case of letters does not count)", item.label(), item.text)
		default:
			k.Headers = append(k.Headers, item.text)
		}
		seen[lower] = true
	}
	return k
}
