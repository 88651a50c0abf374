package api

import "agentbox/agentbox/resources"

// ShowResources returns what boxes may use of this machine.
var ShowResources = Endpoint[None, Resources]{"/v1/resources"}

// Resources is what this machine has, what is allocated to its boxes, what the next box gets by
// default, and how many more boxes there is room for.
type Resources struct {
	Machine   resources.Machine   `json:"machine"`
	Allocated resources.Allocated `json:"allocated"`
	Next      resources.Share     `json:"next"`
	Room      int                 `json:"room"`
}
