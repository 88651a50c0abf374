package placetest

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
)

func TestFake(t *testing.T) {
	Run(t, Config{Kind: &Fake{Dir: t.TempDir()}, Spec: func() place.Spec { return place.Spec{ID: agentbox.NewBoxID()} }, SameNetwork: true})
}
