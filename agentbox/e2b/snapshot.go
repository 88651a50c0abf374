package e2b

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// maxForks bounds the copies of one call.
const maxForks = 100

func (f *Face) fork(r *http.Request, c caller) (int, any, error) {
	b, body, err := withBody(r, c)
	n := 1
	if body.Count != nil {
		n = *body.Count
	}
	if err == nil && (n < 1 || n > maxForks) {
		err = agentbox.Errorf(agentbox.Invalid, "count is 1 to %d", maxForks)
	}
	if err == nil && b.Labels[labelPaused] != "" {
		err = agentbox.Errorf(agentbox.Conflict, "the sandbox is paused").WithHint("Sandbox.connect resumes it")
	}
	if err != nil {
		return 0, nil, err
	}
	out := []any{}
	for range n {
		child, err := client.Call(r.Context(), c.Client, api.Fork, api.ForkRequest{BoxRef: refTo(b), Labels: map[string]string{labelEnd: stamp(until(body.seconds()))}}, nil)
		_, one, err := f.made(r, c, 0, child, err)
		if err != nil {
			out = append(out, map[string]any{"error": map[string]any{"code": api.StatusOf(agentbox.CodeOf(err)), "message": err.Error()}})
			continue
		}
		out = append(out, map[string]any{"sandbox": one})
	}
	f.endsAt(until(body.seconds()))
	return http.StatusCreated, out, nil
}

// snapshot keeps a copy of a sandbox: a paused box with a checkpoint, to which each use returns.
func (f *Face) snapshot(r *http.Request, c caller) (int, any, error) {
	var req struct {
		Name string `json:"name"`
	}
	b, err := found(r, c)
	if err == nil {
		err = read(r, &req)
	}
	if err != nil {
		return 0, nil, err
	}
	ctx := r.Context()
	child, err := client.Call(ctx, c.Client, api.Fork, api.ForkRequest{BoxRef: refTo(b), Labels: ofCaller(c, kindSnapshot, map[string]string{
		labelName: req.Name, labelOf: b.ID.String(), labelEnd: "", labelPause: "", labelPaused: "", labelResume: ""})}, nil)
	if err != nil {
		return 0, nil, err
	}
	_, err = c.Checkpoint(ctx, child.ID.String(), "")
	if err == nil {
		_, err = client.Call(ctx, c.Client, api.Pause, refTo(child), nil)
	}
	if err != nil {
		return 0, nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx), child.ID.String()))
	}
	return http.StatusCreated, snapshotInfo(child), nil
}

func snapshotInfo(b agentbox.Box) map[string]any {
	names := []string{}
	if name := b.Labels[labelName]; name != "" {
		names = append(names, name)
	}
	return map[string]any{"snapshotID": b.ID, "names": names}
}

// findSnapshot finds the snapshot that a template is, by its ID or its name; the newest of that name.
func (f *Face) findSnapshot(ctx context.Context, c caller, template string) (agentbox.Box, bool, error) {
	if isBase(template) || path.IsAbs(template) {
		return agentbox.Box{}, false, nil
	}
	all, err := boxesOf(ctx, c, kindSnapshot, "")
	slices.Reverse(all)
	i := slices.IndexFunc(all, func(b agentbox.Box) bool { return b.ID.String() == template || b.Labels[labelName] == template })
	if err != nil || i < 0 {
		return agentbox.Box{}, false, err
	}
	return all[i], true, nil
}

func (f *Face) restore(ctx context.Context, c caller, snapshot agentbox.Box, labels map[string]string) (agentbox.Box, error) {
	if _, err := c.Rollback(ctx, snapshot.ID.String(), ""); err != nil {
		return agentbox.Box{}, err
	}
	labels[labelName], labels[labelOf] = "", ""
	b, err := client.Call(ctx, c.Client, api.Fork, api.ForkRequest{BoxRef: refTo(snapshot), Labels: labels}, nil)
	_, pauseErr := client.Call(context.WithoutCancel(ctx), c.Client, api.Pause, refTo(snapshot), nil)
	return b, errors.Join(err, pauseErr)
}

func (f *Face) removeSnapshot(r *http.Request, c caller) (int, any, error) {
	b, err := find(r.Context(), c, r.PathValue("id"), kindSnapshot)
	if err == nil {
		err = c.Remove(r.Context(), b.ID.String())
	}
	return http.StatusNoContent, nil, err
}

// load is what a sandbox had used when it was last measured.
type load struct {
	at     time.Time
	millis int64
}

// metrics are of now, if that is in the time asked about; the processor's since the last call.
func (f *Face) metrics(r *http.Request, c caller) (int, any, error) {
	b, err := found(r, c)
	if err != nil {
		return 0, nil, err
	}
	measured, err := client.Call(r.Context(), c.Client, api.ListBoxes, api.ListRequest{Usage: true, ID: b.ID.String()}, nil)
	if err != nil || len(measured) != 1 || measured[0].Usage == nil {
		return http.StatusOK, []any{}, err
	}
	now, use := time.Now().UTC(), measured[0].Usage
	query := r.URL.Query()
	if at, err := strconv.ParseInt(query.Get("start"), 10, 64); err == nil && at > now.Unix()+1 {
		return http.StatusOK, []any{}, nil
	}
	if at, err := strconv.ParseInt(query.Get("end"), 10, 64); err == nil && at < now.Unix()-1 {
		return http.StatusOK, []any{}, nil
	}
	f.mu.Lock()
	last, ok := f.loads[b.ID]
	if !ok || last.millis > use.CPUMillis {
		last = load{b.Created, 0}
	}
	if len(f.loads) > 10000 {
		clear(f.loads)
	}
	f.loads[b.ID] = load{now, use.CPUMillis}
	f.mu.Unlock()
	percent := float64(use.CPUMillis-last.millis) / max(float64(now.Sub(last.at).Milliseconds()), 1) * 100
	return http.StatusOK, []any{map[string]any{
		"timestamp": now, "timestampUnix": now.Unix(), "cpuUsedPct": percent, "cpuCount": b.CPUs, "memUsed": use.PSS, "memTotal": b.Memory, "memCache": 0,
		"diskUsed": use.Disk, "diskTotal": b.Disk,
	}}, nil
}

// listing serves a list by pages, the newest first. nextToken is the ID of the last one of the page before.
func (f *Face) listing(list func(*http.Request, caller) ([]agentbox.Box, func(agentbox.Box) map[string]any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.withKey(func(r *http.Request, c caller) (int, any, error) {
			all, describe, err := list(r, c)
			if err != nil {
				return 0, nil, err
			}
			query := r.URL.Query()
			if query.Get("order") != "asc" {
				slices.Reverse(all)
			}
			if after := query.Get("nextToken"); after != "" {
				all = all[slices.IndexFunc(all, func(b agentbox.Box) bool { return b.ID.String() == after })+1:]
			}
			limit, err := strconv.Atoi(query.Get("limit"))
			if err != nil || limit < 1 {
				limit = 100
			}
			if len(all) > limit {
				all = all[:limit]
				w.Header().Set("X-Next-Token", all[limit-1].ID.String())
			}
			out := []any{}
			for _, b := range all {
				out = append(out, describe(b))
			}
			return http.StatusOK, out, nil
		})(w, r)
	}
}

// sandboxes lists those that a query selects. The SDK escapes metadata as the query of a query.
func (f *Face) sandboxes(r *http.Request, c caller) ([]agentbox.Box, func(agentbox.Box) map[string]any, error) {
	query := r.URL.Query()
	metadata, err := readMetadata(query.Get("metadata"))
	if err != nil {
		return nil, nil, err
	}
	after, _ := time.Parse(time.RFC3339Nano, query.Get("startedAfter"))
	all, err := boxesOf(r.Context(), c, kindSandbox, "")
	return slices.DeleteFunc(all, func(b agentbox.Box) bool {
		d, has := describe(b), metadataOf(b)
		for name, value := range metadata {
			if has[name] != value {
				return true
			}
		}
		states := query.Get("state")
		return states != "" && !slices.Contains(strings.Split(states, ","), d["state"].(string)) || b.Created.Before(after) ||
			query.Get("template") != "" && query.Get("template") != b.Labels[labelTemplate]
	}), describe, err
}

// readMetadata reads NAME=VALUE&..., of which each part was escaped twice.
func readMetadata(text string) (map[string]string, error) {
	pairs, err := url.ParseQuery(text)
	out := map[string]string{}
	for name, values := range pairs {
		plain, nameErr := url.PathUnescape(name)
		value, valueErr := url.PathUnescape(values[0])
		err = errors.Join(err, nameErr, valueErr)
		out[plain] = value
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot read the metadata to look for: %w", err)
	}
	return out, nil
}

func (f *Face) snapshots(r *http.Request, c caller) ([]agentbox.Box, func(agentbox.Box) map[string]any, error) {
	query := r.URL.Query()
	all, err := boxesOf(r.Context(), c, kindSnapshot, "")
	return slices.DeleteFunc(all, func(b agentbox.Box) bool {
		return query.Get("sandboxID") != "" && query.Get("sandboxID") != b.Labels[labelOf] || query.Get("name") != "" && query.Get("name") != b.Labels[labelName]
	}), snapshotInfo, err
}
