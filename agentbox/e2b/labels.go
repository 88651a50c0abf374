package e2b

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// The labels that make a box a sandbox.
const (
	labelKind     = "e2b"       // kindSandbox or kindSnapshot
	labelOwner    = "e2b.owner" // ID of the token that made it, the only one that reaches it
	labelTemplate = "e2b.template"
	labelMetadata = "e2b.metadata" // JSON, of strings
	labelEnd      = "e2b.end"      // when its time is over, RFC 3339
	labelPause    = "e2b.pause"    // it is paused then, and not removed
	labelPaused   = "e2b.paused"   // its program, or its end, paused it
	labelResume   = "e2b.resume"   // a request lets it go on
	labelName     = "e2b.name"     // of a snapshot
	labelOf       = "e2b.of"       // ID of the box of which a snapshot is

	kindSandbox, kindSnapshot = "sandbox", "snapshot"
	yes                       = "yes"
)

func refTo(b agentbox.Box) api.BoxRef { return api.BoxRef{Box: b.ID.String()} }

// boxesOf lists the sandboxes or snapshots of a caller, of one ID or all.
func boxesOf(ctx context.Context, c caller, kind, id string) ([]agentbox.Box, error) {
	return client.Call(ctx, c.Client, api.ListBoxes, api.ListRequest{ID: id, Known: true, Labels: map[string]string{labelKind: kind, labelOwner: c.grant.ID}}, nil)
}

// find finds a sandbox or snapshot of a caller by its whole ID.
func find(ctx context.Context, c caller, id, kind string) (agentbox.Box, error) {
	if _, err := agentbox.ParseBoxID(id); err == nil {
		all, err := boxesOf(ctx, c, kind, id)
		if err != nil || len(all) == 1 {
			return append(all, agentbox.Box{})[0], err
		}
	}
	return agentbox.Box{}, agentbox.Errorf(agentbox.NotFound, "there is no %s %.40q of this API key", kind, id)
}

func ofCaller(c caller, kind string, more map[string]string) map[string]string {
	labels := map[string]string{labelKind: kind, labelOwner: c.grant.ID}
	maps.Copy(labels, more)
	return labels
}

// until is when a time of seconds from now is over. No time is longer than a month.
func until(seconds int) time.Time {
	return time.Now().Add(time.Duration(min(max(seconds, 0), 30*24*3600)) * time.Second).UTC()
}

// endOf is when the time of a sandbox is over. One without was not finished.
func endOf(b agentbox.Box) time.Time {
	at, err := time.Parse(time.RFC3339Nano, b.Labels[labelEnd])
	if err != nil {
		return b.Created.Add(time.Hour)
	}
	return at
}

func metadataOf(b agentbox.Box) map[string]string {
	m := map[string]string{}
	_ = json.Unmarshal([]byte(b.Labels[labelMetadata]), &m)
	return m
}
