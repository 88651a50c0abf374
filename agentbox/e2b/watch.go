package e2b

import (
	"context"
	"path"

	"connectrpc.com/connect"

	"agentbox/agentbox/environment"
)

// eventTypes are E2B's words for what a box tells of its files.
var eventTypes = map[string]eventType{
	"create": "EVENT_TYPE_CREATE", "write": "EVENT_TYPE_WRITE", "remove": "EVENT_TYPE_REMOVE", "rename": "EVENT_TYPE_RENAME", "chmod": "EVENT_TYPE_CHMOD",
}

// watch tells what changes in a directory.
func (f *Face) watch(ctx context.Context, req *connect.Request[watchRequest], stream *connect.ServerStream[watchResponse]) error {
	fs, done, err := f.openFiles(ctx, sessionOf(ctx), userOf(req.Header()))
	if err != nil {
		return asConnect(err)
	}
	defer done()
	dir := fs.at(req.Msg.Path)
	if _, err := fs.List(ctx, dir, 1); err != nil {
		return asConnect(err)
	}
	out := &events[watchResponse]{stream: stream}
	defer out.keepAlive(req.Header(), watchResponse{KeepAlive: &empty{}})()
	began := func() error { return out.send(watchResponse{Start: &empty{}}) }
	tell := func(name, kind string) error {
		event := fileEvent{Name: name, Type: eventTypes[kind]}
		if event.Type == "" {
			return nil
		}
		if req.Msg.IncludeEntry && kind != "remove" && kind != "rename" {
			if there, err := fs.describe(path.Join(dir, name)); err == nil { // else it went meanwhile
				event.Entry = there.Entry
			}
		}
		return out.send(watchResponse{Filesystem: &event})
	}
	return asConnect(environment.Watch(ctx, fs.conn.client, dir, req.Msg.Recursive, began, tell))
}
