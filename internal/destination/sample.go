package destination

import _ "embed"

// SampleFile is the destinations file to start from: one bank of 50 requests
// per second, with a comment beside every field.
//
//go:embed sample.yaml
var SampleFile []byte
