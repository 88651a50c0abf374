// Package token keeps the tokens by which other programs call the API, and tells whose a token is.
// It does not know what a token's scope permits: agentbox/door does.
package token
