package place

import "agentbox/agentbox"

// Origin says where a template came from: what places of a key (Spec.Key) begin with.
type Origin struct {
	Image agentbox.Digest `json:"image"`        // what its machine booted
	By    string          `json:"by,omitempty"` // the member that made it; "": this machine
}

// ShortKey shortens a key for people.
func ShortKey(key string) string { return key[:min(12, len(key))] }
