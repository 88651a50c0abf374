package e2b

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/environment"
)

// watchEvery is how often a watched directory is looked at: SFTP does not tell of changes.
const watchEvery = 250 * time.Millisecond

// watch tells what changes in a directory. Changes that are undone between two looks are not seen, and
// a file that gets another name is removed and created.
func (f *Face) watch(ctx context.Context, req *connect.Request[watchRequest], stream *connect.ServerStream[watchResponse]) error {
	fs, done, err := f.openFiles(ctx, sessionOf(ctx), userOf(req.Header()))
	if err != nil {
		return asConnect(err)
	}
	defer done()
	dir, depth := fs.at(req.Msg.Path), 1
	if req.Msg.Recursive {
		depth = maxLevels
	}
	before, err := fs.List(ctx, dir, depth)
	if err != nil {
		return asConnect(err)
	}
	out := &events[watchResponse]{stream: stream}
	defer out.keepAlive(req.Header(), watchResponse{KeepAlive: &empty{}})()
	if err := out.send(watchResponse{Start: &empty{}}); err != nil {
		return err
	}
	about := func(e environment.Entry) *entryInfo {
		if !req.Msg.IncludeEntry {
			return nil
		}
		info := fs.info(e)
		return &info
	}
	for background.Sleep(ctx, watchEvery) {
		now, err := fs.List(ctx, dir, depth)
		if agentbox.CodeOf(err) == agentbox.NotFound { // of a directory that went meanwhile
			if _, gone := fs.Lstat(dir); gone == nil {
				continue
			}
		}
		if err != nil {
			return asConnect(err)
		}
		for _, e := range changes(dir, before, now, about) {
			if err := out.send(watchResponse{Filesystem: &e}); err != nil {
				return err
			}
		}
		before = now
	}
	return ctx.Err()
}

// changes are the events between two looks at a directory, in the order of names. One of a new file
// that has something in it is also written. about is what is told of a file that is there.
func changes(dir string, before, now []environment.Entry, about func(environment.Entry) *entryInfo) (out []fileEvent) {
	old, is := byPath(before), byPath(now)
	names := slices.Sorted(maps.Keys(old))
	for name := range is {
		if _, both := old[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		was, there := old[name]
		e, stays := is[name]
		add := func(kind eventType) {
			event := fileEvent{Name: strings.TrimPrefix(name, strings.TrimSuffix(dir, "/")+"/"), Type: kind}
			if stays {
				event.Entry = about(e)
			}
			out = append(out, event)
		}
		switch {
		case !stays:
			add("EVENT_TYPE_REMOVE")
			continue
		case !there:
			add("EVENT_TYPE_CREATE")
		}
		if !e.IsDir() && (!there && e.Size() > 0 || there && (!e.ModTime().Equal(was.ModTime()) || e.Size() != was.Size())) {
			add("EVENT_TYPE_WRITE")
		}
		if there && e.Mode() != was.Mode() {
			add("EVENT_TYPE_CHMOD")
		}
	}
	return out
}

func byPath(all []environment.Entry) map[string]environment.Entry {
	m := map[string]environment.Entry{}
	for _, e := range all {
		if kindOf(e) != "" && !strings.HasPrefix(path.Base(e.Path), ".tmp-") { // WriteWhole's
			m[e.Path] = e
		}
	}
	return m
}
