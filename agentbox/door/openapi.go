package door

import _ "embed"

// Document describes the public calls, as OpenAPI 3.1. TestDocument makes it from api.Public, the
// Go types and their comments.
//
//go:embed openapi.json
var Document []byte
